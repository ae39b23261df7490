// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// returnTo makes a run return to an earlier state with only the history. There is no chart and no values.
func (r *releaseRun) returnTo(had model.Desired, options model.Options) {
	r.desired, r.options, r.chart, r.values = had, options, nil, nil
	r.desired.Return = true
}

// mustReturn decides on a return to a revision, carries it out and checks that nothing is left to do.
func (r *releaseRun) mustReturn(t *testing.T, target int) Result {
	t.Helper()
	decision := r.later(t, time.Minute)
	if !decision.Returns || decision.RollbackTo != target {
		t.Fatalf("decided %+v, want the return to Helm revision %d", decision, target)
	}
	result := r.mustAct(t, decision, model.ActionRollback)
	record := r.record(t, result.Revision)
	if !record.MadeFrom(r.desired) || record.RolledBackFrom != "" || record.Tested != "" ||
		record.Owner != r.desired.Owner {
		t.Errorf("record of the return: %+v", record)
	}
	if after := r.later(t, 0); after.State != model.StateInSync || after.Failures != 0 {
		t.Errorf("after the return: %+v", after)
	}
	return result
}

// TestIntegrationReturn checks that a return restores the complete state of a revision, without chart and values. It
// also works repeatedly, and the result is in sync.
func TestIntegrationReturn(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.options.PostRender = &model.PostRender{Labels: map[string]string{"made-from": "one"}}
	run.options.Install.NamespaceLabels = map[string]string{"level": "one"}
	run.desired.PostRenderDigest, run.desired.OptionsDigest = "p1", model.OptionsDigest(run.options)
	run.mustSettle(t)
	had, options := run.desired, run.options

	run.options = model.Options{Upgrade: model.UpgradeOptions{CleanupOnFail: true},
		Install: model.InstallOptions{NamespaceLabels: map[string]string{"level": "two"}}}
	run.desired = helmtest.DesiredFor(b.namespace, "demo", "a2", "v2")
	run.desired.OptionsDigest = model.OptionsDigest(run.options)
	run.chart, run.values = helmtest.NewChart("2.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "second.yaml": helmtest.ConfigMap("second", "2")}),
		map[string]any{"cidr": "2"}
	run.mustSettle(t)
	b.wantNoConfigMap("first")
	given, givenOptions := run.desired, run.options

	run.returnTo(had, options)
	b.cutter.Take()
	result := run.mustReturn(t, 1)
	t.Logf("a return and three observations: %d requests", len(b.cutter.Take()))
	if result.Revision != 3 || result.Status != "deployed" || result.ChartVersion != "1.0.0" || len(result.Objects) != 2 {
		t.Errorf("result of a return: %+v", result)
	}
	b.wantConfigMap("demo-value", "1")
	b.wantConfigMap("first", "1")
	b.wantNoConfigMap("second")
	object, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "first", metav1.GetOptions{})
	if err != nil || object.Labels["made-from"] != "one" {
		t.Errorf("labels %v, %v", object.Labels, err)
	}

	// The return adds no failure to the abandoned state. The target of another return is the newest matching revision.
	run.returnTo(given, givenOptions)
	run.mustReturn(t, 2)
	b.wantConfigMap("demo-value", "2")
	run.returnTo(had, options)
	run.mustReturn(t, 3)
	b.wantRecords(run.desired, "5 deployed", "4 superseded", "3 superseded", "2 superseded", "1 superseded")
	b.wantConfigMap("demo-value", "1")
	b.wantNoConfigMap("second")
	namespace, err := b.kube.CoreV1().Namespaces().Get(t.Context(), b.namespace, metav1.GetOptions{})
	if err != nil || namespace.Labels["level"] != "one" {
		t.Errorf("labels of the namespace %v, %v", namespace.Labels, err)
	}
}

// TestIntegrationReturnAfterHelmCommand checks that a return replaces a revision that a person made with the helm
// command, even a rollback to the same revision.
func TestIntegrationReturnAfterHelmCommand(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	had := run.desired
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	run.mustSettle(t)
	byHand := action.NewRollback(b.human())
	byHand.Version = 1
	if err := byHand.Run("demo"); err != nil {
		t.Fatal(err)
	}

	run.returnTo(had, model.Options{})
	if decision := run.later(t, 0); decision.State != model.StateUnmanaged ||
		decision.Reason != decide.ReasonChangedOutsideHelmOp {
		t.Errorf("after a rollback by hand: %+v", decision)
	}
	run.mustReturn(t, 1)
	b.humanUpgrade("demo", helmtest.NewChart("3.0.0", map[string]string{"third.yaml": helmtest.ConfigMap("third", "3")}))
	run.mustReturn(t, 4)
	b.wantNoConfigMap("third")
	b.wantConfigMap("demo-value", "1")
	b.wantConfigMap("first", "1")
	b.wantRecords(run.desired, "6 deployed", "5 superseded", "4 superseded", "3 superseded", "2 superseded",
		"1 superseded")
}

// TestIntegrationReturnWithoutTarget checks that HelmOp upgrades if the history no longer has the target of a return.
// Failed returns may remove their target from the history.
func TestIntegrationReturnWithoutTarget(t *testing.T) {
	b := newBench(t)
	templates := helmtest.TwoConfigMaps()
	templates["hook.yaml"] = hookService("refused", "pre-rollback")
	first := helmtest.NewChart("1.0.0", templates)
	run := b.newRun(first, map[string]any{"cidr": "1"})
	run.options.Upgrade.MaxHistory = ptr.To(2)
	run.policy = helmtest.WithRollback
	run.mustSettle(t)
	had := run.desired
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	run.mustSettle(t)

	run.returnTo(had, run.options)
	run.mustFail(t, run.later(t, 0), model.ActionRollback)
	b.wantRecords(run.desired, "3 failed", "2 deployed")
	decision := run.later(t, time.Minute)
	if decision.RollbackTo != 3 || !decision.Returns || decision.Failures != 1 {
		t.Errorf("after a return that failed: %+v", decision)
	}
	run.mustFail(t, decision, model.ActionRollback)
	if decision = run.later(t, time.Hour); decision.Action != model.ActionStall || decision.State != model.StateFailed {
		t.Errorf("after two returns that failed: %+v", decision)
	}
	run.options.Rollback.DisableHooks = true
	run.past.RetryRequested = true
	run.mustAct(t, run.later(t, 0), model.ActionRollback)
	run.past.RetryRequested = false
	b.wantConfigMap("first", "1")

	for _, artifact := range []string{"a4", "a5", "a6"} {
		run.desired.Return = false
		run.want(artifact, helmtest.NewChart("4.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
		run.mustSettle(t)
	}
	run.returnTo(had, run.options)
	run.chart, run.values = first, map[string]any{"cidr": "1"}
	run.mustAct(t, run.later(t, 0), model.ActionUpgrade)
	b.wantConfigMap("first", "1")
}

// TestIntegrationReturnDeletesFailedObjects checks that a return deletes the objects of a failed revision, and runs its
// tests.
func TestIntegrationReturnDeletesFailedObjects(t *testing.T) {
	b := newBench(t)
	run := b.newRun(testedChart("1.0.0", true), map[string]any{"cidr": "1"})
	run.policy.Test.Enabled = true
	run.mustSettle(t)
	had := run.desired
	broken := brokenChart("2.0.0")
	broken.Templates = append(broken.Templates,
		helmtest.NewChart("", map[string]string{"new.yaml": helmtest.ConfigMap("new", "1")}).Templates...)
	run.want("a2", broken)
	run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
	b.wantConfigMap("new", "1")

	run.returnTo(had, model.Options{})
	run.mustAct(t, run.later(t, 0), model.ActionRollback)
	b.wantNoConfigMap("new")
	if decision := run.later(t, 0); decision.State != model.StateUntested {
		t.Errorf("after the return: %+v", decision)
	}
	run.mustAct(t, run.later(t, 0), model.ActionTest)
	if record := run.record(t, 3); record.Tested != model.TestedPassed {
		t.Errorf("record of the return after its tests: %+v", record)
	}
	if decision := run.later(t, 0); decision.State != model.StateInSync {
		t.Errorf("after the tests: %+v", decision)
	}
}

// TestIntegrationReturnChecksTarget checks that a return fails if its target was not made from the desired state, even
// if the decision has this target.
func TestIntegrationReturnChecksTarget(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	run.mustSettle(t)
	decision := decide.Decision{Action: model.ActionRollback, RollbackTo: 1, Returns: true, FromRevision: 2, ToRevision: 3}
	_, err := run.act(t.Context(), decision)
	if !errors.Is(err, helmerr.ErrStale) {
		t.Errorf("a return to something else: %v", err)
	}
	b.wantRecords(run.desired, "2 deployed", "1 superseded")
}
