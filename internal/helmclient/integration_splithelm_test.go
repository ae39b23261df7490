// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// TestIntegrationHelmCommandWithSplitRecords checks how the helm command handles split records: it lists them, and
// rejects actions that it cannot carry out correctly.
func TestIntegrationHelmCommandWithSplitRecords(t *testing.T) {
	for name, use := range storages() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			use(b)
			b.target.Storage.SplitAll = true
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
			run.mustSettle(t)
			list := action.NewList(b.human())
			list.All = true
			releases, err := list.Run()
			if err != nil || len(releases) != 1 || releases[0].Chart.Metadata.Version != "2.0.0" ||
				releases[0].Info.Status != release.StatusDeployed {
				t.Fatalf("helm list: %+v, %v", releases, err)
			}
			history, err := action.NewHistory(b.human()).Run("demo")
			if err != nil || len(history) != 2 {
				t.Fatalf("helm history: %d, %v", len(history), err)
			}
			upgrade := action.NewUpgrade(b.human())
			upgrade.Namespace = b.namespace
			if _, err := upgrade.Run("demo", helmtest.NewChart("3.0.0", helmtest.TwoConfigMaps()), nil); err == nil ||
				!strings.Contains(err.Error(), records.PointerKind) {
				t.Errorf("helm upgrade: %v", err)
			}
			if _, err := action.NewUninstall(b.human()).Run("demo"); err == nil {
				t.Error("helm uninstall did not fail")
			}
			b.wantConfigMap("first", "1")
			b.wantRecords(run.desired, "2 uninstalling", "1 superseded")
			// Helm has rewritten the record without fields that it does not use. The next process deletes nothing.
			b.newProcess(run)
			before := b.configMapUID("first")
			run.mustSettle(t)
			b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
			if b.configMapUID("first") != before {
				t.Error("the object is another by now")
			}
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantNoConfigMap("first")
			b.wantRecords(run.desired)
		})
	}
}

func (b *bench) configMapUID(name string) types.UID {
	b.t.Helper()
	object, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return object.UID
}

// TestIntegrationHelmRollbackKeepsPayload checks that a payload is kept if a rollback with the helm command copied its
// pointer to another record.
func TestIntegrationHelmRollbackKeepsPayload(t *testing.T) {
	b := newBench(t)
	store := newMemoryStore()
	b.target.Storage = model.Storage{Store: store, Outside: true}
	b.options.Upgrade.MaxHistory = new(2)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.options = b.options
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
	run.mustSettle(t)
	rollback := action.NewRollback(b.human())
	rollback.Version = 1
	if err := rollback.Run("demo"); err == nil {
		t.Fatal("helm rollback did not fail")
	}
	obs, err := run.observe(t.Context())
	if err != nil || obs.Records[0].Revision != 3 || obs.Records[0].Status != "pending-rollback" {
		t.Fatalf("%+v, %v", obs.Records, err)
	}
	now := time.Now()
	if d := decide.Next(obs, run.desired, run.policy, run.past, now); d.Action != model.ActionWait || d.RequeueAfter <= 0 {
		t.Errorf("%+v", d)
	}
	if d := decide.Next(obs, run.desired, run.policy, run.past,
		now.Add(model.DefaultPendingTimeout+time.Minute)); d.Action != model.ActionRecoverThenUpgrade {
		t.Errorf("later: %+v", d)
	}
	held := b.newRecords()
	if _, err := held.History("demo"); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Delete(records.NameOf("demo", 1)); err != nil {
		t.Fatal(err)
	}
	if store.count() != 2 {
		t.Errorf("%d payloads: that of Helm revision 1 is Helm revision 3's, too", store.count())
	}
	read, err := b.newRecords().Get(records.NameOf("demo", 3))
	if err != nil || !strings.Contains(read.Manifest, "first") {
		t.Fatalf("Helm revision 3: %v", err)
	}
	if _, err := held.Delete(records.NameOf("demo", 3)); err != nil {
		t.Fatal(err)
	}
	if store.count() != 1 {
		t.Errorf("%d payloads after both went", store.count())
	}
}
