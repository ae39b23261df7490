// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// storedRecords writes the records of a release to the cluster and the store. It uses the format of an earlier version
// of HelmOp, in which payloads had random IDs. Revisions 1 and 2 have the values 1 and 2.
func (b *bench) storedRecords(name string, store *memoryStore) *releaseRun {
	b.t.Helper()
	text, err := os.ReadFile("testdata/records-" + name + ".json")
	if err != nil {
		b.t.Fatal(err)
	}
	var stored struct {
		Secrets  []corev1.Secret   `json:"secrets"`
		Payloads map[string][]byte `json:"payloads"`
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		b.t.Fatal(err)
	}
	// The records contain the name of the namespace, so a run uses the same namespace each time. A successful test
	// leaves the namespace empty.
	b.namespace = "stored-" + name
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	_, err = b.kube.CoreV1().Namespaces().Create(b.t.Context(), namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.t.Fatal(err)
	}
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	for i := range stored.Secrets {
		if _, err := secrets.Create(b.t.Context(), &stored.Secrets[i], metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	for id, data := range stored.Payloads {
		store.kept[id] = data
	}
	run := b.newRun(helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "2"})
	run.desired.ArtifactDigest, run.desired.ValuesDigest = "a2", "v2"
	run.options.Upgrade.MaxHistory = new(2)
	return run
}

// wantReadable checks that revisions can be read and are unchanged.
func (b *bench) wantReadable(values map[int]string) {
	b.t.Helper()
	held := b.newRecords()
	for revision, value := range values {
		rls, err := held.Get(records.NameOf("demo", revision))
		if err != nil {
			b.t.Errorf("Helm revision %d: %v", revision, err)
			continue
		}
		if rls.Version != revision || rls.Config["cidr"] != value || !strings.Contains(rls.Manifest, "name: first") ||
			len(rls.Chart.Templates) == 0 {
			b.t.Errorf("Helm revision %d: version %d, values %v, manifest %q", revision, rls.Version, rls.Config, rls.Manifest)
		}
	}
}

// TestIntegrationStoredParts checks records of an earlier version with payloads in the cluster. They can be read,
// rolled back to and deleted. The parts that this version left are deleted.
func TestIntegrationStoredParts(t *testing.T) {
	b := newBench(t)
	b.target.Storage.SplitAll = true
	run := b.storedRecords("cluster", nil)
	b.wantReadable(map[int]string{1: "1", 2: "2"})
	run.want("a3", helmtest.NewChart("3.0.0", helmtest.TwoConfigMaps()))
	run.mustSettle(t)
	b.wantRecords(run.desired, "3 deployed", "2 superseded")
	if n := len(b.parts()); n != 3 {
		t.Errorf("%d parts, want two that are needed and one that another action may be about to name", n)
	}
	run.desired.ArtifactDigest, run.desired.ValuesDigest, run.desired.Return = "a2", "v2", true
	run.chart, run.values, run.options.Upgrade.MaxHistory = nil, nil, nil
	b.newProcess(run)
	run.mustSettle(t)
	b.wantRecords(run.desired, "4 deployed", "3 superseded", "2 superseded")
	b.wantReadable(map[int]string{2: "2", 3: "2", 4: "2"})
	run.client.now = func() time.Time { return time.Now().Add(2 * records.ChunkGrace) }
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRecords(run.desired)
	b.wantNoConfigMap("first")
	if n := len(b.parts()); n != 0 {
		t.Errorf("%d parts are left", n)
	}
}

// TestIntegrationStoredPayloads checks that records of an earlier version with payloads in a store can be read and
// deleted. A rollback with the helm command made revision 3 refer to the payload of revision 1. The payload is deleted
// with revision 3.
func TestIntegrationStoredPayloads(t *testing.T) {
	b := newBench(t)
	store := newMemoryStore()
	b.target.Storage = model.Storage{Store: store, Outside: true}
	run := b.storedRecords("registry", store)
	b.wantReadable(map[int]string{1: "1", 2: "2", 3: "1"})
	run.options.Upgrade.MaxHistory = new(3)
	later := time.Now().Add(model.DefaultPendingTimeout + time.Minute)
	decision := decide.Next(b.observe(run.desired), run.desired, run.policy, run.past, later)
	if _, err := run.act(t.Context(), decision); err != nil {
		t.Fatal(err)
	}
	b.wantRecords(run.desired, "4 deployed", "3 failed", "2 superseded")
	b.wantReadable(map[int]string{2: "2", 3: "1", 4: "2"})
	if n := store.count(); n != 3 {
		t.Errorf("%d payloads of three records", n)
	}
	run.options.Upgrade.MaxHistory = new(2)
	run.want("a5", helmtest.NewChart("5.0.0", helmtest.TwoConfigMaps()))
	run.mustSettle(t)
	b.wantReadable(map[int]string{4: "2", 5: "2"})
	if n := store.count(); n != 2 {
		t.Errorf("%d payloads of two records, after that which shared one is gone", n)
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRecords(run.desired)
	if n := store.count(); n != 0 {
		t.Errorf("%d payloads are left", n)
	}
}
