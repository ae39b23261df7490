/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
)

// matrixCase is a state of a release on a real API server, and what becomes of it.
type matrixCase struct {
	// build brings the release there; the run it is given wants chart 1.0.0 and the value 1.
	build func(*testing.T, *bench, *releaseRun)
	// policy, past and later, by how much the clock is ahead, are those of the first decision and of all after it.
	policy Policy
	past   Past
	later  time.Duration
	// state and reason are those of the first decision.
	state  State
	reason string
	// actions are all that are decided until there is nothing more to do, waits left out unless a wait is the end.
	actions []Action
	// history is what Helm says in the end, newest first; value is what the cluster holds, empty for nothing.
	history []string
	value   string
}

// brokenService cannot be created: an address cannot be chosen so.
const brokenService = "apiVersion: v1\nkind: Service\nmetadata:\n  name: broken\nspec:\n  clusterIP: 300.0.0.1\n  ports: [{port: 80}]\n"

// brokenChart has an object that the API server refuses, beside one that it takes.
func brokenChart(version string) *chart.Chart {
	return newChart(version, map[string]string{"value.yaml": valueConfigMap, "broken.yaml": brokenService})
}

// testedChart has a test that passes, or one that fails.
func testedChart(version string, passes bool) *chart.Chart {
	check := hook("ConfigMap", "check", "test", "data: {key: ran}\n")
	if !passes {
		check = "apiVersion: v1\nkind: Service\nmetadata:\n  name: check\n  annotations: {\"helm.sh/hook\": test}\nspec: {clusterIP: 300.0.0.1, ports: [{port: 80}]}\n"
	}
	return newChart(version, map[string]string{"value.yaml": valueConfigMap, "check.yaml": check})
}

// TestIntegrationMatrix builds each state of a release, and holds what is decided, what that does and what is there in
// the end.
func TestIntegrationMatrix(t *testing.T) {
	for _, group := range []map[string]matrixCase{matrixInSync(), matrixFailed(), matrixStalled(), matrixPending(), matrixGone(), matrixOthers(), matrixTested()} {
		for name, c := range group {
			t.Run(name, func(t *testing.T) {
				b := newBench(t)
				run := b.newRun(newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap}), map[string]any{"cidr": "1"})
				if c.build != nil {
					c.build(t, b, run)
				}
				run.policy, run.past = c.policy, c.past
				first, actions := run.walk(t, c.later)
				if first.State != c.state || first.Reason != c.reason {
					t.Errorf("first decided on %s because of %s, want %s and %s: %+v", first.State, first.Reason, c.state, c.reason, first)
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

// walk decides and acts until nothing more happens, and returns the first decision and all actions.
func (r *releaseRun) walk(t *testing.T, later time.Duration) (first Decision, actions []Action) {
	t.Helper()
	now := time.Now().Add(later)
	for step := range maxSteps {
		obs, err := r.observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		decision := Decide(obs, r.desired, r.policy, r.past, now)
		if step == 0 {
			first = decision
		}
		switch decision.Action {
		case ActionNone, ActionRefuse, ActionStall, ActionCorrectDrift:
			return first, append(actions, decision.Action)
		case ActionWait:
			if decision.Reason != ReasonBackoff {
				return first, append(actions, decision.Action)
			}
			now = now.Add(decision.RequeueAfter)
			continue
		}
		actions = append(actions, decision.Action)
		_, err = r.act(t.Context(), decision)
		// What a caller remembers; the storage tells the rest.
		r.past = Past{}
		if err != nil && asError(t, err).Kind != nil {
			t.Fatalf("%s: %v", decision.Action, err)
		}
	}
	t.Fatalf("no end after %v", actions)
	return first, nil
}

// installed settles what is wanted.
func installed(t *testing.T, _ *bench, run *releaseRun) {
	t.Helper()
	run.mustSettle(t)
}

// failing makes a try at something that cannot work.
func (r *releaseRun) failing(t *testing.T, artifact string, chrt *chart.Chart, action Action) {
	t.Helper()
	r.want(artifact, chrt)
	_, err := r.actNow(t, action)
	wantError(t, err, nil, true)
}

func failedUpgrade(t *testing.T, b *bench, run *releaseRun) {
	t.Helper()
	installed(t, b, run)
	run.values = map[string]any{"cidr": "2"}
	run.failing(t, "a2", brokenChart("2.0.0"), ActionUpgrade)
}

// repaired is failedUpgrade, after which the cluster takes what it refused, as when a quota was raised.
func repaired(t *testing.T, b *bench, run *releaseRun) {
	t.Helper()
	failedUpgrade(t, b, run)
	run.chart = newChart("2.0.0", map[string]string{"value.yaml": valueConfigMap})
}

// setStatus gives a record another status, as a crash at that moment would have left it.
func (b *bench) setStatus(name string, revision int, status release.Status) {
	b.t.Helper()
	releases := b.human().Releases
	record, err := releases.Get(name, revision)
	if err != nil {
		b.t.Fatal(err)
	}
	record.Info.Status = status
	if status == release.StatusUninstalling {
		record.Labels[LabelUninstalling] = "true"
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
		return matrixCase{build: changed(change), state: StateOutOfSync, reason: reason, actions: []Action{ActionUpgrade, ActionNone},
			history: []string{"2 deployed", "1 superseded"}, value: "2"}
	}
	return map[string]matrixCase{
		"absent": {state: StateAbsent, reason: ReasonNotInstalled, actions: []Action{ActionInstall, ActionNone}, history: []string{"1 deployed"}, value: "1"},
		"in sync": {build: installed, state: StateInSync, reason: ReasonInSync, actions: []Action{ActionNone},
			history: []string{"1 deployed"}, value: "1"},
		"other artifact": upgraded(ReasonArtifactChanged, func(r *releaseRun) { r.desired.ArtifactDigest = "a2" }),
		"other values":   upgraded(ReasonValuesChanged, func(r *releaseRun) { r.desired.ValuesDigest = "v2" }),
		"other options":  upgraded(ReasonOptionsChanged, func(r *releaseRun) { r.desired.OptionsDigest = "o2" }),
		"other post-rendering": upgraded(ReasonPostRenderChanged, func(r *releaseRun) {
			r.desired.PostRenderDigest = "p2"
			r.options.PostRender = &PostRender{Labels: map[string]string{"by": "us"}}
		}),
		"superseded": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				b.setStatus("demo", 1, release.StatusSuperseded)
			},
			state: StateOutOfSync, reason: ReasonNotDeployed, actions: []Action{ActionUpgrade, ActionNone},
			history: []string{"2 deployed", "1 superseded"}, value: "1",
		},
		"drifted and reported": {build: installed, past: Past{Drifted: true}, state: StateDrifted, reason: ReasonDrifted, actions: []Action{ActionNone},
			history: []string{"1 deployed"}, value: "1"},
		"drifted and corrected": {build: installed, past: Past{Drifted: true}, policy: Policy{CorrectDrift: true}, state: StateDrifted, reason: ReasonDrifted,
			actions: []Action{ActionCorrectDrift}, history: []string{"1 deployed"}, value: "1"},
	}
}

func matrixFailed() map[string]matrixCase {
	rollBack := Policy{Upgrade: FailurePolicy{Remediate: RemediateRollback}}
	failedInstall := func(t *testing.T, _ *bench, run *releaseRun) {
		t.Helper()
		run.failing(t, "a1", brokenChart("1.0.0"), ActionInstall)
		run.chart = newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap})
	}
	return map[string]matrixCase{
		"failed install": {build: failedInstall, state: StateFailed, reason: ReasonBackoff,
			actions: []Action{ActionUpgrade, ActionNone}, history: []string{"2 deployed", "1 failed"}, value: "1"},
		"failed install and uninstalled": {build: failedInstall, policy: Policy{Install: FailurePolicy{Remediate: RemediateUninstall}},
			state: StateFailed, reason: ReasonRemediateUninstall, actions: []Action{ActionUninstall, ActionInstall, ActionNone},
			history: []string{"1 deployed"}, value: "1"},
		"failed upgrade": {build: repaired, state: StateFailed, reason: ReasonBackoff, actions: []Action{ActionUpgrade, ActionNone},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2"},
		// An upgrade that failed is never answered with an uninstall, whatever an install's policy says.
		"failed upgrade but no install": {build: repaired, policy: Policy{Install: FailurePolicy{Remediate: RemediateUninstall}},
			state: StateFailed, reason: ReasonBackoff, actions: []Action{ActionUpgrade, ActionNone},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2"},
		"failed upgrade and rolled back": {build: repaired, policy: rollBack, state: StateFailed, reason: ReasonUpgradeFailed,
			actions: []Action{ActionRollback, ActionUpgrade, ActionNone},
			history: []string{"4 deployed", "3 superseded", "2 failed", "1 superseded"}, value: "2"},
		"unhealthy and rolled back": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				run.want("a2", run.chart)
				run.values = map[string]any{"cidr": "2"}
				run.mustSettle(t)
			},
			policy: rollBack, past: Past{Unhealthy: true, Failures: 1}, state: StateInSync, reason: ReasonUnhealthy,
			actions: []Action{ActionRollback, ActionUpgrade, ActionNone},
			history: []string{"4 deployed", "3 superseded", "2 superseded", "1 superseded"}, value: "2",
		},
	}
}

func matrixStalled() map[string]matrixCase {
	none := 0
	never := FailurePolicy{Retries: &none}
	return map[string]matrixCase{
		"stalled": {build: failedUpgrade, policy: Policy{Upgrade: never}, state: StateFailed, reason: ReasonRetriesExhausted,
			actions: []Action{ActionStall}, history: []string{"2 failed", "1 deployed"}, value: "2"},
		"stalled and retry asked for": {build: repaired, policy: Policy{Upgrade: never}, past: Past{RetryRequested: true}, state: StateFailed,
			reason: ReasonRetryFailed, actions: []Action{ActionUpgrade, ActionNone}, history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2"},
		"stalled and something else wanted": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				repaired(t, b, run)
				run.desired.ArtifactDigest = "a3"
			},
			policy: Policy{Upgrade: never}, state: StateOutOfSync, reason: ReasonArtifactChanged, actions: []Action{ActionUpgrade, ActionNone},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "2",
		},
		"stalled and rolled back": {build: failedUpgrade, policy: Policy{Upgrade: FailurePolicy{Retries: &none, Remediate: RemediateRollback}},
			state: StateFailed, reason: ReasonUpgradeFailed, actions: []Action{ActionRollback, ActionStall},
			history: []string{"3 deployed", "2 failed", "1 superseded"}, value: "1"},
		"retries until the end": {
			build: failedUpgrade, policy: Policy{Upgrade: FailurePolicy{Retries: new(2)}}, state: StateFailed, reason: ReasonBackoff,
			actions: []Action{ActionUpgrade, ActionUpgrade, ActionStall},
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
	const late = DefaultPendingTimeout + time.Second
	recovered := func(build func(*testing.T, *bench, *releaseRun), reason string, later time.Duration, action Action, history ...string) matrixCase {
		return matrixCase{build: build, later: later, state: StatePending, reason: reason, actions: []Action{action, ActionNone}, history: history, value: "2"}
	}
	return map[string]matrixCase{
		"pending-install of ours": recovered(pending(1, release.StatusPendingInstall, nil), ReasonInterrupted, 0, ActionRecoverThenInstall, "1 deployed"),
		"pending-install of ours and other wanted": recovered(pending(1, release.StatusPendingInstall, other), ReasonInterrupted, 0, ActionRecoverThenUpgrade,
			"2 deployed", "1 failed"),
		"pending-upgrade of ours": recovered(pending(2, release.StatusPendingUpgrade, nil), ReasonInterrupted, 0, ActionRecoverThenUpgrade,
			"2 deployed", "1 superseded"),
		"pending-upgrade of ours and other wanted": recovered(pending(2, release.StatusPendingUpgrade, other), ReasonInterrupted, 0, ActionRecoverThenUpgrade,
			"3 deployed", "2 failed", "1 superseded"),
		"pending-rollback": recovered(pending(2, release.StatusPendingRollback, nil), ReasonInterrupted, 0, ActionRecoverThenUpgrade,
			"3 deployed", "2 failed", "1 superseded"),
		"pending-upgrade of another and young": {build: pending(2, release.StatusPendingUpgrade, moved), state: StatePending, reason: ReasonPendingElsewhere,
			actions: []Action{ActionWait}, history: []string{"2 pending-upgrade", "1 deployed"}, value: "1"},
		"pending-upgrade of another and old": recovered(pending(2, release.StatusPendingUpgrade, moved), ReasonPendingTimeout, late, ActionRecoverThenUpgrade,
			"2 deployed", "1 superseded"),
		"pending-install of another and old": recovered(pending(1, release.StatusPendingInstall, moved), ReasonPendingTimeout, late, ActionRecoverThenInstall,
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
			state: StateUninstalling, reason: ReasonFinishUninstall, actions: []Action{ActionUninstall, ActionInstall, ActionNone},
			history: []string{"1 deployed"}, value: "1",
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
			state: StateUninstalled, reason: ReasonNotInstalled, actions: []Action{ActionInstall, ActionNone},
			history: []string{"2 deployed", "1 uninstalled"}, value: "1",
		},
	}
}

func matrixOthers() map[string]matrixCase {
	byHand := func(_ *testing.T, b *bench, run *releaseRun) { b.humanInstall("demo", run.chart) }
	return map[string]matrixCase{
		"upgraded by hand": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				b.humanUpgrade("demo", run.chart)
			},
			state: StateUnmanaged, reason: ReasonChangedByAnotherHand, actions: []Action{ActionUpgrade, ActionNone},
			history: []string{"3 deployed", "2 superseded", "1 superseded"}, value: "1",
		},
		"made by hand": {build: byHand, state: StateForeign, reason: ReasonConflict, actions: []Action{ActionRefuse}, history: []string{"1 deployed"}, value: "human"},
		"made by hand and adopted": {build: byHand, policy: Policy{TakeOwnership: true}, state: StateForeign, reason: ReasonAdopt,
			actions: []Action{ActionUpgrade, ActionNone}, history: []string{"2 deployed", "1 superseded"}, value: "1"},
		"of another HelmOp": {
			build: func(t *testing.T, b *bench, run *releaseRun) {
				t.Helper()
				installed(t, b, run)
				run.desired.Owner, run.desired.ArtifactDigest = "default.other", "a2"
			},
			state: StateForeign, reason: ReasonConflict, actions: []Action{ActionRefuse}, history: []string{"1 deployed"}, value: "1",
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
		"untested": {build: tested(true), policy: Policy{Test: TestPolicy{Enabled: true}}, state: StateUntested, reason: ReasonUntested,
			actions: []Action{ActionTest, ActionNone}, history: []string{"1 deployed"}, value: "1"},
		"tests fail": {build: tested(false), policy: Policy{Test: TestPolicy{Enabled: true}, Install: FailurePolicy{Retries: &one}}, state: StateUntested,
			reason: ReasonUntested, actions: []Action{ActionTest, ActionTest, ActionStall}, history: []string{"1 deployed"}, value: "1"},
		"tests fail and are ignored": {build: tested(false), policy: Policy{Test: TestPolicy{Enabled: true, IgnoreFailures: true}}, state: StateUntested,
			reason: ReasonUntested, actions: []Action{ActionTest, ActionNone}, history: []string{"1 deployed"}, value: "1"},
		"tests of an upgrade fail and rolled back": {
			build:  upgraded,
			policy: Policy{Test: TestPolicy{Enabled: true}, Upgrade: FailurePolicy{Retries: &one, Remediate: RemediateRollback}},
			state:  StateUntested, reason: ReasonUntested,
			actions: []Action{ActionTest, ActionRollback, ActionUpgrade, ActionTest, ActionRollback, ActionStall},
			history: []string{"5 deployed", "4 superseded", "3 superseded", "2 superseded", "1 superseded"}, value: "1",
		},
	}
}

// TestIntegrationMatrixIdle holds what a pass over a release costs that is as desired: one request, for metadata, whatever
// the release holds.
func TestIntegrationMatrixIdle(t *testing.T) {
	b := newBench(t)
	run := b.newRun(newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.cutter.take()
	for range 3 {
		decision, err := run.decide(t.Context())
		if err != nil || decision.Action != ActionNone {
			t.Fatalf("%+v, %v", decision, err)
		}
		if requests := b.cutter.take(); len(requests) != 1 || requests[0] != fmt.Sprintf("GET /api/v1/namespaces/%s/secrets", b.namespace) {
			t.Errorf("an idle pass sends %v", requests)
		}
	}
}
