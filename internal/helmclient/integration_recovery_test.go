// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// cutPending leaves behind a pending record: it cuts the connection after the first change of a ConfigMap.
func (b *bench) cutPending(action model.Action, desired model.Desired, chrt *chart.Chart, values map[string]any) {
	b.t.Helper()
	b.reconnect(-1)
	b.cutter.Last = func(req *http.Request) bool {
		return req.Method != http.MethodGet && strings.Contains(req.URL.Path, "/configmaps")
	}
	_, err := b.act(decide.Decision{Action: action}, desired, chrt, values)
	helmtest.WantError(b.t, err, helmerr.ErrUnreachable, true)
	b.reconnect(-1)
	if newest, _ := b.observe(desired).Newest(); !strings.HasPrefix(newest.Status, "pending-") {
		b.t.Fatalf("no pending record was left: %+v", newest)
	}
}

// TestIntegrationInterruptedInstallObjectsAreDeleted checks that objects of an interrupted installation are deleted if
// they are no longer desired.
func TestIntegrationInterruptedInstallObjectsAreDeleted(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	b.cutPending(model.ActionInstall, desired, helmtest.NewChart("1.0.0", map[string]string{
		"first.yaml": helmtest.ConfigMap("first", "1"), "second.yaml": helmtest.ConfigMap("second", "1"),
	}), nil)
	_, first := b.configMapValue("first")
	_, second := b.configMapValue("second")
	if !first && !second {
		t.Error("nothing was created before the cut")
	}
	desired.ArtifactDigest = "a2"
	actions := b.converge(desired, helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}),
		map[string]any{"cidr": "2"})
	if len(actions) != 1 || actions[0] != model.ActionRecoverThenUpgrade {
		t.Errorf("recovered by %v", actions)
	}
	b.wantRecords(desired, "2 deployed", "1 failed")
	b.wantConfigMap("demo-value", "2")
	b.wantNoConfigMap("first")
	b.wantNoConfigMap("second")
}

// TestIntegrationPendingUpgradeIsReverted checks that a return to the previous state reverts an interrupted upgrade.
// The revision before the upgrade has the desired digests, but some objects may belong to the upgrade.
func TestIntegrationPendingUpgradeIsReverted(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps())
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	changed := desired
	changed.ValuesDigest = "v2"
	b.cutPending(model.ActionUpgrade, changed, chrt, map[string]any{"cidr": "2"})
	b.wantConfigMap("demo-value", "2")
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	b.wantRecords(desired, "3 deployed", "2 failed", "1 superseded")
	b.wantConfigMap("demo-value", "1")
}

func TestIntegrationPendingRecordOfOtherUID(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"}
	b.cutPending(model.ActionInstall, desired, chrt, values)
	desired.UID = "uid-after-move"
	decision := b.decide(desired, model.Policy{})
	if decision.Action != model.ActionWait || decision.RequeueAfter != decide.OtherProcessRetry {
		t.Errorf("young record of another: %+v", decision)
	}
	next := func(later time.Duration) decide.Decision {
		return decide.Next(b.observe(desired), desired, model.Policy{}, model.Past{}, time.Now().Add(later))
	}
	// The record names the end of its action, so the wait is shorter than for a record without it.
	if decision = next(model.DefaultTimeout); decision.Action != model.ActionWait {
		t.Errorf("the other action may still be running: %+v", decision)
	}
	if _, err := b.act(next(model.DefaultTimeout+2*decide.ActionMargin), desired, chrt, values); err != nil {
		t.Fatal(err)
	}
	b.wantRecords(desired, "1 deployed")
	for _, secret := range b.recordSecrets() {
		if deadline, ok := secret.Labels[model.LabelDeadline]; ok {
			t.Errorf("the record of an action that has ended names the deadline %q", deadline)
		}
	}
}

func TestIntegrationStaleRecovery(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"}
	b.converge(desired, chrt, values)
	stale := decide.Decision{Action: model.ActionRecoverThenInstall, Recovery: decide.RecoverReplace, FromRevision: 1}
	_, err := b.act(stale, desired, chrt, values)
	helmtest.WantError(t, err, helmerr.ErrStale, false, "no longer pending")
	_, err = b.act(decide.Decision{Action: model.ActionInstall}, desired, chrt, values)
	helmtest.WantError(t, err, helmerr.ErrStale, false)
	b.wantRecords(desired, "1 deployed")
}

func TestIntegrationUpgradeByHelmCommand(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "ours"}
	b.converge(desired, chrt, values)
	b.humanUpgrade("demo", chrt)
	b.wantConfigMap("demo-value", "human")
	if decision := b.decide(desired, model.Policy{}); decision.State != model.StateUnmanaged {
		t.Errorf("after an upgrade by hand: %+v", decision)
	}
	b.converge(desired, chrt, values)
	b.wantConfigMap("demo-value", "ours")

	rollback := action.NewRollback(b.human())
	rollback.Version = 2
	if err := rollback.Run("demo"); err != nil {
		t.Fatal(err)
	}
	if decision := b.decide(desired, model.Policy{}); decision.State != model.StateUnmanaged {
		t.Errorf("after a rollback by hand: %+v", decision)
	}
	b.converge(desired, chrt, values)
	b.wantConfigMap("demo-value", "ours")
	b.wantRecords(desired, "5 deployed", "4 superseded", "3 superseded", "2 superseded", "1 superseded")
}

func TestIntegrationForeign(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "ours"}
	b.humanInstall("demo", chrt)
	decision := b.decide(desired, model.Policy{})
	if decision.Action != model.ActionRefuse {
		t.Errorf("a release made by hand: %+v", decision)
	}
	if result, err := b.act(decision, desired, chrt, values); err != nil || result.StorageChanged {
		t.Errorf("refused, yet: %+v, %v", result, err)
	}
	b.wantConfigMap("demo-value", "human")
	if _, err := b.act(b.decide(desired, model.Policy{TakeOwnership: true}), desired, chrt, values); err != nil {
		t.Fatal(err)
	}
	b.wantConfigMap("demo-value", "ours")
	if decision := b.decide(desired, model.Policy{}); decision.State != model.StateInSync {
		t.Errorf("after adoption: %+v", decision)
	}
	other := desired
	other.Owner = "default.second"
	if decision := b.decide(other, model.Policy{}); decision.Action != model.ActionRefuse ||
		!strings.Contains(decision.Message, "default.demo") {
		t.Errorf("a second owner: %+v", decision)
	}
}
