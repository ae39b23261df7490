// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// matrixCase is a state of a release on a real API server, with the expected decisions and result.
type matrixCase struct {
	// build creates the state. The desired state of the run is chart 1.0.0 and the value 1.
	build func(*testing.T, *bench, *releaseRun)
	// policy and past apply to all decisions. later is how far the clock is ahead.
	policy model.Policy
	past   model.Past
	later  time.Duration
	// state and reason belong to the first decision.
	state  model.State
	reason string
	// actions are all decided actions until nothing is left to do. A wait is included only if it is the last action.
	actions []model.Action
	// history is the final history, newest first. value is the final value in the cluster. It is empty if there is
	// none.
	history []string
	value   string
}

// brokenService cannot be created, because its address is invalid.
const brokenService = "apiVersion: v1\nkind: Service\nmetadata:\n  name: broken\nspec:\n  clusterIP: 300.0.0.1\n  " +
	"ports: [{port: 80}]\n"

// brokenChart returns a chart with an object that the API server rejects, and an object that it accepts.
func brokenChart(version string) *chart.Chart {
	return helmtest.NewChart(version,
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "broken.yaml": brokenService})
}

// testedChart returns a chart with a test that passes or fails.
func testedChart(version string, passes bool) *chart.Chart {
	check := hook("ConfigMap", "check", "test", "data: {key: ran}\n")
	if !passes {
		check = "apiVersion: v1\nkind: Service\nmetadata:\n  name: check\n  annotations: {\"helm.sh/hook\": test}\nspec: " +
			"{clusterIP: 300.0.0.1, ports: [{port: 80}]}\n"
	}
	return helmtest.NewChart(version, map[string]string{"value.yaml": helmtest.ValueConfigMap, "check.yaml": check})
}

// TestIntegrationStateMatrix creates each state of a release, and checks the decision, its result and the final state
// of the cluster.
func TestIntegrationStateMatrix(t *testing.T) {
	for _, group := range []map[string]matrixCase{matrixInSync(), matrixFailed(), matrixStalled(), matrixPending(),
		matrixGone(), matrixOthers(), matrixTested()} {
		for name, c := range group {
			t.Run(name, func(t *testing.T) {
				b := newBench(t)
				run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}),
					map[string]any{"cidr": "1"})
				if c.build != nil {
					c.build(t, b, run)
				}
				run.policy, run.past = c.policy, c.past
				first, actions := run.walk(t, c.later)
				if first.State != c.state || first.Reason != c.reason {
					t.Errorf("first decided on %s because of %s, want %s and %s: %+v", first.State, first.Reason, c.state, c.reason,
						first)
				}
				if !slices.Equal(actions, c.actions) {
					t.Errorf("actions %v, want %v", actions, c.actions)
				}
				b.wantRecords(run.desired, c.history...)
				if c.value == "" {
					b.wantNoConfigMap("demo-value")
				} else {
					b.wantConfigMap("demo-value", c.value)
				}
			})
		}
	}
}

// walk decides and acts until nothing is left to do, and returns the first decision and all actions.
func (r *releaseRun) walk(t *testing.T, later time.Duration) (first decide.Decision, actions []model.Action) {
	t.Helper()
	now := time.Now().Add(later)
	var obs model.Observation
	var last Result
	for step := range maxSteps {
		var err error
		if obs, err = r.observeAfter(t.Context(), obs, last); err != nil {
			t.Fatal(err)
		}
		last = Result{}
		decision := decide.Next(obs, r.desired, r.policy, r.past, now)
		if step == 0 {
			first = decision
		}
		switch decision.Action {
		case model.ActionNone, model.ActionRefuse, model.ActionStall, model.ActionCorrectDrift:
			return first, append(actions, decision.Action)
		case model.ActionWait:
			if decision.Reason != decide.ReasonBackoff {
				return first, append(actions, decision.Action)
			}
			now = now.Add(decision.RequeueAfter)
			continue
		}
		actions = append(actions, decision.Action)
		last, err = r.act(t.Context(), decision)
		// The storage has the rest of the state. The caller has only this part.
		r.past = model.Past{}
		if err != nil && helmtest.AsError(t, err).Kind != nil {
			t.Fatalf("%s: %v", decision.Action, err)
		}
	}
	t.Fatalf("no end after %v", actions)
	return first, nil
}

// installed installs the desired state.
func installed(t *testing.T, _ *bench, run *releaseRun) {
	t.Helper()
	run.mustSettle(t)
}

// failing makes an attempt at a state that cannot be installed.
func (r *releaseRun) failing(t *testing.T, artifact string, chrt *chart.Chart, action model.Action) {
	t.Helper()
	r.want(artifact, chrt)
	_, err := r.actNow(t, action)
	helmtest.WantError(t, err, nil, true)
}

func failedUpgrade(t *testing.T, b *bench, run *releaseRun) {
	t.Helper()
	installed(t, b, run)
	run.values = map[string]any{"cidr": "2"}
	run.failing(t, "a2", brokenChart("2.0.0"), model.ActionUpgrade)
}

// repaired creates a failed upgrade. Then it makes the next attempt acceptable to the cluster, as if an administrator
// had increased a quota.
func repaired(t *testing.T, b *bench, run *releaseRun) {
	t.Helper()
	failedUpgrade(t, b, run)
	run.chart = helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
}

// setStatus changes the status of a record, as if a process had crashed in that state.
func (b *bench) setStatus(name string, revision int, status release.Status) {
	b.t.Helper()
	releases := b.human().Releases
	record, err := releases.Get(name, revision)
	if err != nil {
		b.t.Fatal(err)
	}
	record.Info.Status = status
	if status == release.StatusUninstalling {
		record.Labels[model.LabelUninstalling] = "true"
	}
	if err := releases.Update(record); err != nil {
		b.t.Fatal(err)
	}
}

func matrixInSync() map[string]matrixCase {
	changed := func(change func(*releaseRun)) func(*testing.T, *bench, *releaseRun) {
		return func(t *testing.T, b *bench, run *releaseRun) {
			installed(t, b, run)
			run.values = map[string]any{"cidr": "2"}
			change(run)
		}
	}
	upgraded := func(reason string, change func(*releaseRun)) matrixCase {
		return matrixCase{build: changed(change), state: model.StateOutOfSync, reason: reason,
			actions: []model.Action{model.ActionUpgrade, model.ActionNone},
			history: []string{"2 deployed", "1 superseded"}, value: "2"}
	}
	return map[string]matrixCase{
		"absent": {state: model.StateAbsent, reason: decide.ReasonNotInstalled,
			actions: []model.Action{model.ActionInstall, model.ActionNone}, history: []string{"1 deployed"}, value: "1"},
		"in sync": {build: installed, state: model.StateInSync, reason: decide.ReasonInSync,
			actions: []model.Action{model.ActionNone},
			history: []string{"1 deployed"}, value: "1"},
		"other artifact": upgraded(decide.ReasonArtifactChanged, func(r *releaseRun) { r.desired.ArtifactDigest = "a2" }),
		"other values":   upgraded(decide.ReasonValuesChanged, func(r *releaseRun) { r.desired.ValuesDigest = "v2" }),
		"other options":  upgraded(decide.ReasonOptionsChanged, func(r *releaseRun) { r.desired.OptionsDigest = "o2" }),
		"other post-rendering": upgraded(decide.ReasonPostRenderChanged, func(r *releaseRun) {
			r.desired.PostRenderDigest = "p2"
			r.options.PostRender = &model.PostRender{Labels: map[string]string{"by": "us"}}
		}),
		"superseded": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				b.setStatus("demo", 1, release.StatusSuperseded)
			},
			state: model.StateOutOfSync, reason: decide.ReasonNotDeployed,
			actions: []model.Action{model.ActionUpgrade, model.ActionNone},
			history: []string{"2 deployed", "1 superseded"}, value: "1",
		},
		"drifted and reported": {build: installed, past: model.Past{Drifted: true}, state: model.StateDrifted,
			reason: decide.ReasonDrifted, actions: []model.Action{model.ActionNone},
			history: []string{"1 deployed"}, value: "1"},
		"drifted and corrected": {build: installed, past: model.Past{Drifted: true}, policy: model.Policy{CorrectDrift: true},
			state: model.StateDrifted, reason: decide.ReasonDrifted,
			actions: []model.Action{model.ActionCorrectDrift}, history: []string{"1 deployed"}, value: "1"},
	}
}

func matrixFailed() map[string]matrixCase {
	rollBack := model.Policy{Upgrade: model.FailurePolicy{Remediate: model.RemediateRollback}}
	failedInstall := func(t *testing.T, _ *bench, run *releaseRun) {
		t.Helper()
		run.failing(t, "a1", brokenChart("1.0.0"), model.ActionInstall)
		run.chart = helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	}
	return map[string]matrixCase{
		"failed install": {build: failedInstall, state: model.StateFailed, reason: decide.ReasonBackoff,
			actions: []model.Action{model.ActionUpgrade, model.ActionNone}, history: []string{"2 deployed", "1 failed"},
			value: "1"},
		"failed install and uninstalled": {build: failedInstall,
			policy: model.Policy{Install: model.FailurePolicy{Remediate: model.RemediateUninstall}},
			state:  model.StateFailed, reason: decide.ReasonRemediateUninstall,
			actions: []model.Action{model.ActionUninstall, model.ActionInstall, model.ActionNone},
			history: []string{"1 deployed"}, value: "1"},
		"failed upgrade": {build: repaired, state: model.StateFailed, reason: decide.ReasonBackoff,
			actions: []model.Action{model.ActionUpgrade, model.ActionNone},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2"},
		// A failed upgrade never leads to an uninstallation. The policy for installations does not apply.
		"failed upgrade but no install": {build: repaired,
			policy: model.Policy{Install: model.FailurePolicy{Remediate: model.RemediateUninstall}},
			state:  model.StateFailed, reason: decide.ReasonBackoff,
			actions: []model.Action{model.ActionUpgrade, model.ActionNone},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2"},
		"failed upgrade and rolled back": {build: repaired, policy: rollBack, state: model.StateFailed,
			reason:  decide.ReasonUpgradeFailed,
			actions: []model.Action{model.ActionRollback, model.ActionUpgrade, model.ActionNone},
			history: []string{"4 deployed", "3 superseded", "2 failed", "1 superseded"}, value: "2"},
		"unhealthy and rolled back": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				run.want("a2", run.chart)
				run.values = map[string]any{"cidr": "2"}
				run.mustSettle(t)
			},
			policy: rollBack, past: model.Past{Unhealthy: true, Failures: 1}, state: model.StateInSync,
			reason:  decide.ReasonUnhealthy,
			actions: []model.Action{model.ActionRollback, model.ActionUpgrade, model.ActionNone},
			history: []string{"4 deployed", "3 superseded", "2 superseded", "1 superseded"}, value: "2",
		},
	}
}

func matrixStalled() map[string]matrixCase {
	none := 0
	never := model.FailurePolicy{Retries: &none}
	return map[string]matrixCase{
		"stalled": {build: failedUpgrade, policy: model.Policy{Upgrade: never}, state: model.StateFailed,
			reason:  decide.ReasonRetriesExhausted,
			actions: []model.Action{model.ActionStall}, history: []string{"2 failed", "1 deployed"}, value: "2"},
		"stalled and retry requested": {build: repaired, policy: model.Policy{Upgrade: never},
			past: model.Past{RetryRequested: true}, state: model.StateFailed,
			reason: decide.ReasonRetryFailed, actions: []model.Action{model.ActionUpgrade, model.ActionNone},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2"},
		"stalled and another state desired": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				repaired(t, b, run)
				run.desired.ArtifactDigest = "a3"
			},
			policy: model.Policy{Upgrade: never}, state: model.StateOutOfSync, reason: decide.ReasonArtifactChanged,
			actions: []model.Action{model.ActionUpgrade, model.ActionNone},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2",
		},
		"stalled and rolled back": {build: failedUpgrade,
			policy: model.Policy{Upgrade: model.FailurePolicy{Retries: &none, Remediate: model.RemediateRollback}},
			state:  model.StateFailed, reason: decide.ReasonUpgradeFailed,
			actions: []model.Action{model.ActionRollback, model.ActionStall},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "1"},
		"retries until the end": {
			build: failedUpgrade, policy: model.Policy{Upgrade: model.FailurePolicy{Retries: new(2)}}, state: model.StateFailed,
			reason:  decide.ReasonBackoff,
			actions: []model.Action{model.ActionUpgrade, model.ActionUpgrade, model.ActionStall},
			history: []string{"4 failed", "3 failed", "2 failed", "1 deployed"}, value: "2",
		},
	}
}

func matrixPending() map[string]matrixCase {
	pending := func(revision int, status release.Status, change func(*releaseRun)) func(*testing.T, *bench, *releaseRun) {
		return func(t *testing.T, b *bench, run *releaseRun) {
			t.Helper()
			installed(t, b, run)
			if revision == 2 {
				run.want("a2", run.chart)
				run.mustSettle(t)
				b.setStatus("demo", 1, release.StatusDeployed)
			}
			b.setStatus("demo", revision, status)
			run.values = map[string]any{"cidr": "2"}
			if change != nil {
				change(run)
			}
		}
	}
	moved := func(r *releaseRun) { r.desired.UID = "another" }
	other := func(r *releaseRun) { r.desired.ArtifactDigest = "a3" }
	const late = model.DefaultPendingTimeout + time.Second
	recovered := func(build func(*testing.T, *bench, *releaseRun), reason string, later time.Duration, action model.Action,
		history ...string) matrixCase {
		return matrixCase{build: build, later: later, state: model.StatePending, reason: reason,
			actions: []model.Action{action, model.ActionNone}, history: history, value: "2"}
	}
	return map[string]matrixCase{
		"pending-install of ours": recovered(pending(1, release.StatusPendingInstall, nil), decide.ReasonInterrupted, 0,
			model.ActionRecoverThenInstall, "1 deployed"),
		"pending-install of ours and other wanted": recovered(pending(1, release.StatusPendingInstall, other),
			decide.ReasonArtifactChanged, 0, model.ActionRecoverThenUpgrade,
			"2 deployed", "1 failed"),
		"pending-upgrade of ours": recovered(pending(2, release.StatusPendingUpgrade, nil), decide.ReasonInterrupted, 0,
			model.ActionRecoverThenUpgrade,
			"2 deployed", "1 superseded"),
		"pending-upgrade of ours and other wanted": recovered(pending(2, release.StatusPendingUpgrade, other),
			decide.ReasonArtifactChanged, 0, model.ActionRecoverThenUpgrade,
			"3 deployed", "2 failed", "1 superseded"),
		"pending-rollback": recovered(pending(2, release.StatusPendingRollback, nil), decide.ReasonInterrupted, 0,
			model.ActionRecoverThenUpgrade,
			"3 deployed", "2 failed", "1 superseded"),
		"pending-upgrade of another and young": {build: pending(2, release.StatusPendingUpgrade, moved),
			state: model.StatePending, reason: decide.ReasonPendingOtherOwner,
			actions: []model.Action{model.ActionWait}, history: []string{"2 pending-upgrade", "1 deployed"}, value: "1"},
		"pending-upgrade of another and old": recovered(pending(2, release.StatusPendingUpgrade, moved),
			decide.ReasonPendingTimeout, late, model.ActionRecoverThenUpgrade,
			"2 deployed", "1 superseded"),
		"pending-install of another and old": recovered(pending(1, release.StatusPendingInstall, moved),
			decide.ReasonPendingTimeout, late, model.ActionRecoverThenInstall,
			"1 deployed"),
	}
}

func matrixGone() map[string]matrixCase {
	return map[string]matrixCase{
		"uninstalling": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				b.setStatus("demo", 1, release.StatusUninstalling)
			},
			state: model.StateUninstalling, reason: decide.ReasonInterrupted,
			actions: []model.Action{model.ActionRecoverThenUpgrade, model.ActionNone},
			history: []string{"2 deployed", "1 failed"}, value: "1",
		},
		"uninstalled with its history kept": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				run.options.Uninstall.KeepHistory = true
				if err := run.settleUninstall(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			state: model.StateUninstalled, reason: decide.ReasonNotInstalled,
			actions: []model.Action{model.ActionInstall, model.ActionNone},
			history: []string{"2 deployed", "1 uninstalled"}, value: "1",
		},
	}
}

func matrixOthers() map[string]matrixCase {
	byHand := func(_ *testing.T, b *bench, run *releaseRun) { b.humanInstall("demo", run.chart) }
	return map[string]matrixCase{
		"upgraded with helm": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				b.humanUpgrade("demo", run.chart)
			},
			state: model.StateUnmanaged, reason: decide.ReasonChangedOutsideHelmOp,
			actions: []model.Action{model.ActionUpgrade, model.ActionNone},
			history: []string{"3 deployed", "2 superseded", "1 superseded"}, value: "1",
		},
		"installed with helm": {build: byHand, state: model.StateForeign, reason: decide.ReasonConflict,
			actions: []model.Action{model.ActionRefuse}, history: []string{"1 deployed"}, value: "human"},
		"installed with helm and adopted": {build: byHand, policy: model.Policy{TakeOwnership: true},
			state:   model.StateForeign,
			reason:  decide.ReasonAdopt,
			actions: []model.Action{model.ActionAdopt, model.ActionNone}, history: []string{"2 deployed", "1 superseded"},
			value: "1"},
		"of another HelmOp": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				run.desired.Owner, run.desired.ArtifactDigest = "default.other", "a2"
			},
			state: model.StateForeign, reason: decide.ReasonConflict, actions: []model.Action{model.ActionRefuse},
			history: []string{"1 deployed"}, value: "1",
		},
	}
}

func matrixTested() map[string]matrixCase {
	tested := func(passes bool) func(*testing.T, *bench, *releaseRun) {
		return func(t *testing.T, b *bench, run *releaseRun) {
			t.Helper()
			run.chart = testedChart("1.0.0", passes)
			installed(t, b, run)
		}
	}
	upgraded := func(t *testing.T, b *bench, run *releaseRun) {
		t.Helper()
		installed(t, b, run)
		run.want("a2", testedChart("2.0.0", false))
		run.values = map[string]any{"cidr": "2"}
		run.mustSettle(t)
	}
	one := 1
	return map[string]matrixCase{
		"untested": {build: tested(true), policy: model.Policy{Test: model.TestPolicy{Enabled: true}},
			state: model.StateUntested, reason: decide.ReasonUntested,
			actions: []model.Action{model.ActionTest, model.ActionNone}, history: []string{"1 deployed"}, value: "1"},
		"tests fail": {build: tested(false),
			policy: model.Policy{Test: model.TestPolicy{Enabled: true}, Install: model.FailurePolicy{Retries: &one}},
			state:  model.StateUntested,
			reason: decide.ReasonUntested, actions: []model.Action{model.ActionTest, model.ActionTest, model.ActionStall},
			history: []string{"1 deployed"}, value: "1"},
		"tests fail and are ignored": {build: tested(false),
			policy: model.Policy{Test: model.TestPolicy{Enabled: true, IgnoreFailures: true}}, state: model.StateUntested,
			reason: decide.ReasonUntested, actions: []model.Action{model.ActionTest, model.ActionNone},
			history: []string{"1 deployed"}, value: "1"},
		"tests of an upgrade fail and rolled back": {
			build: upgraded,
			policy: model.Policy{Test: model.TestPolicy{Enabled: true},
				Upgrade: model.FailurePolicy{Retries: &one, Remediate: model.RemediateRollback}},
			state: model.StateUntested, reason: decide.ReasonUntested,
			actions: []model.Action{model.ActionTest, model.ActionRollback, model.ActionUpgrade, model.ActionTest,
				model.ActionRollback, model.ActionStall},
			history: []string{"5 deployed", "4 superseded", "3 superseded", "2 superseded", "1 superseded"}, value: "1",
		},
	}
}

// TestIntegrationInSyncReleaseNeedsOneRequest checks that the observation of a release in sync sends one request for
// metadata. The size of the release does not matter.
func TestIntegrationInSyncReleaseNeedsOneRequest(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.cutter.Take()
	for range 3 {
		decision, err := run.decide(t.Context())
		if err != nil || decision.Action != model.ActionNone {
			t.Fatalf("%+v, %v", decision, err)
		}
		if requests := b.cutter.Take(); len(requests) != 1 ||
			requests[0] != fmt.Sprintf("GET /api/v1/namespaces/%s/secrets", b.namespace) {
			t.Errorf("the observation sends %v", requests)
		}
	}
}
