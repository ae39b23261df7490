// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// smallRecords rejects records that are larger than a quarter of a Secret, because packing megabytes takes seconds with
// the race detector. It splits records that are close to this limit.
var smallRecords = model.Storage{Limit: 256 << 10, SplitAll: true}

// bigText returns a text with about size bytes. The text is always the same. It compresses by about a third, like
// hashes and certificates.
func bigText(size int) string {
	random := rand.New(rand.NewSource(1))
	var text strings.Builder
	for text.Len() < size {
		fmt.Fprintf(&text, "%016x", random.Uint64())
	}
	return text.String()
}

// bigChart returns a chart with a big ConfigMap. The chart is big because of its files, which Helm stores, or because
// of the output of its template.
func bigChart(version string, fileBytes, renderedHashes int) *chart.Chart {
	many := fmt.Sprintf("{{- range $i := until %d }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: big-{{ "+
		"$i }}\ndata:\n", renderedHashes/100) +
		"{{- range $j := until 100 }}\n  k{{ $j }}: {{ printf \"%d-%d\" $i $j | sha256sum }}\n{{- end }}\n{{- end }}\n"
	chrt := helmtest.NewChart(version, map[string]string{"value.yaml": helmtest.ValueConfigMap, "many.yaml": many})
	if fileBytes > 0 {
		chrt.Files = append(chrt.Files, &chart.File{Name: "dashboards.json", Data: []byte(bigText(fileBytes))})
	}
	return chrt
}

// incompressibleChart returns a chart with records of 3 MB. Its file does not compress, so packing is fast.
func incompressibleChart(version string, renderedHashes int) *chart.Chart {
	chrt := bigChart(version, 0, renderedHashes)
	data := make([]byte, 3<<20)
	rand.New(rand.NewSource(1)).Read(data)
	chrt.Files = append(chrt.Files, &chart.File{Name: "image.bin", Data: data})
	return chrt
}

// withWidgets adds a CRD to a chart.
func withWidgets(chrt *chart.Chart, group string) *chart.Chart {
	chrt.Files = append(chrt.Files,
		&chart.File{Name: "crds/widget.yaml", Data: []byte(strings.ReplaceAll(widgetCRD, "helmclient.test", group))})
	return chrt
}

// TestIntegrationBigReleaseFits checks that a release of the maximum size is installed, upgraded, observed with one
// request, and uninstalled.
func TestIntegrationBigReleaseFits(t *testing.T) {
	b := newBench(t)
	run := b.newRun(bigChart("1.0.0", 850<<10, 1000), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.want("a2", bigChart("2.0.0", 860<<10, 1000))
	run.mustSettle(t)
	b.wantRecords(run.desired, "2 deployed", "1 superseded")
	records, err := b.kube.CoreV1().Secrets(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records.Items {
		size := len(records.Items[i].Data["release"])
		t.Logf("%s: %d KiB", records.Items[i].Name, size>>10)
		if size < model.MaxRecordSize*8/10 {
			t.Errorf("%s has %d bytes: too small to show anything", records.Items[i].Name, size)
		}
	}
	b.cutter.Take()
	if decision, err := run.decide(t.Context()); err != nil || decision.Action != model.ActionNone ||
		len(b.cutter.Take()) != 1 {
		t.Errorf("an idle pass over a big release: %+v, %v", decision, err)
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRecords(run.desired)
	b.wantNoConfigMap("big-0")
}

// TestIntegrationBigInstallRejected checks that a release that is too large is rejected before any write: there is no
// namespace, CRD, object or record.
func TestIntegrationBigInstallRejected(t *testing.T) {
	tests := map[string]func() (*chart.Chart, map[string]any){
		"files": func() (*chart.Chart, map[string]any) {
			return bigChart("1.0.0", 640<<10, 0), map[string]any{"cidr": "1"}
		},
		"rendered": func() (*chart.Chart, map[string]any) {
			return bigChart("1.0.0", 0, 10_000), map[string]any{"cidr": "1"}
		},
		"both": func() (*chart.Chart, map[string]any) {
			return bigChart("1.0.0", 256<<10, 5_000), map[string]any{"cidr": "1"}
		},
		"values": func() (*chart.Chart, map[string]any) {
			return bigChart("1.0.0", 0, 0), map[string]any{"cidr": "1", "unused": bigText(640 << 10)}
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.target.Storage = smallRecords
			chrt, values := build()
			group := name + ".big.test"
			run := b.newRun(withWidgets(chrt, group), values)
			_, err := run.actNow(t, model.ActionInstall)
			helmtest.WantError(t, err, helmerr.ErrTooLarge, false, "KiB")
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			b.wantRecords(run.desired)
			b.wantNoConfigMap("demo-value")
			b.wantNoConfigMap("big-0")
			if _, err := b.kube.CoreV1().Namespaces().Get(t.Context(), b.namespace,
				metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the namespace: %v", err)
			}
			crd := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets." + group
			if err := b.kube.Discovery().RESTClient().Get().AbsPath(crd).Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
				t.Errorf("the CRD: %v", err)
			}
		})
	}
}

// TestIntegrationBigUpgradeRejected checks that an upgrade that is too large changes nothing, and that a smaller
// upgrade succeeds afterwards.
func TestIntegrationBigUpgradeRejected(t *testing.T) {
	b := newBench(t)
	b.target.Storage = smallRecords
	run := b.newRun(bigChart("1.0.0", 0, 100), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	for _, big := range []*chart.Chart{bigChart("2.0.0", 640<<10, 100), bigChart("2.0.0", 0, 10_000)} {
		run.want("a2", big)
		run.values = map[string]any{"cidr": "2"}
		_, err := run.actNow(t, model.ActionUpgrade)
		helmtest.WantError(t, err, helmerr.ErrTooLarge, false)
		b.wantConfigMap("demo-value", "1")
		b.wantNoConfigMap("big-5")
		b.wantRecords(run.desired, "1 deployed")
	}
	run.want("a3", bigChart("3.0.0", 0, 200))
	run.mustSettle(t)
	b.wantConfigMap("demo-value", "2")
	b.wantRecords(run.desired, "2 deployed", "1 superseded")
}

// TestIntegrationLargeRecords installs, upgrades, rolls back and uninstalls a release with records of 3 MB, in each
// storage, as several processes would.
func TestIntegrationLargeRecords(t *testing.T) {
	for name, use := range storages() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			keeps := use(b)
			run := b.newRun(incompressibleChart("1.0.0", 1000), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			b.wantConfigMap("demo-value", "1")
			kept := keeps()
			if len(kept) != 1 {
				t.Errorf("payloads: %v", kept)
			}
			for id, size := range kept {
				if size < 3<<20 {
					t.Errorf("payload %s has %d bytes", id, size)
				}
			}
			b.newProcess(run)
			run.want("a2", incompressibleChart("2.0.0", 1500))
			run.values = map[string]any{"cidr": "2"}
			run.desired.ValuesDigest = "v2"
			run.mustSettle(t)
			b.wantConfigMap("demo-value", "2")
			b.wantRecords(run.desired, "2 deployed", "1 superseded")
			for _, secret := range b.recordSecrets() {
				if size := len(secret.Data[records.Key]); size > 8<<10 {
					t.Errorf("%s has %d bytes", secret.Name, size)
				}
			}
			b.cutter.Take()
			if decision, err := run.decide(t.Context()); err != nil || decision.Action != model.ActionNone ||
				len(b.cutter.Take()) != 1 {
				t.Errorf("an idle pass: %+v, %v", decision, err)
			}
			b.rollBack(run)
			b.wantConfigMap("demo-value", "1")
			b.wantNoConfigMap("big-14")
			b.newProcess(run)
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantRecords(run.desired)
			b.wantNoConfigMap("big-0")
			b.wantNoConfigMap("demo-value")
			if left := keeps(); len(left) != 0 || len(b.parts()) != 0 {
				t.Errorf("payloads are left: %v", left)
			}
		})
	}
}
