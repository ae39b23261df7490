// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// TestLooksNew checks which releases may be assumed to have no records.
func TestLooksNew(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	annotated := func(name string) func(p *releasePass) {
		return func(p *releasePass) { p.release.Annotations = map[string]string{name: "x"} }
	}
	for name, tc := range map[string]struct {
		change func(p *releasePass)
		want   bool
	}{
		"new":               {func(*releasePass) {}, true},
		"without a HelmOp":  {func(p *releasePass) { p.helmOp = nil }, true},
		"waits for a slot":  {func(p *releasePass) { p.release.Status.State = string(model.StateAbsent) }, true},
		"Cluster not known": {func(p *releasePass) { p.object = nil }, false},
		"older Cluster": {func(p *releasePass) {
			p.object.SetCreationTimestamp(metav1.NewTime(now.Add(-newClusterAge)))
		}, false},
		"Cluster was re-created": {func(p *releasePass) { p.release.Status.ClusterRecreatedAt = metav1.NewTime(now) }, false},
		"moved":                  {func(p *releasePass) { p.desired.FormerManagementClusters = []string{"x"} }, false},
		"in the management cluster": {func(p *releasePass) {
			p.release.Spec.ClusterRef = addonsv1.ClusterReference{Kind: addonsv1.ClusterKindManagementCluster}
		}, false},
		"installed": {func(p *releasePass) { p.release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1} }, false},
		"tried":     {func(p *releasePass) { p.release.Status.LastAttemptedDigest = "x" }, false},
		"uninstalled": {func(p *releasePass) {
			p.release.Status.History = []addonsv1.ReleaseAction{{Action: "Uninstall", Succeeded: true}}
		}, false},
		"failed":          {func(p *releasePass) { p.release.Status.LastError = "x" }, false},
		"lost":            {annotated(addonsv1.LostToAnnotation), false},
		"retry requested": {annotated(addonsv1.RetryRequestedAtAnnotation), false},
		"may adopt":       {func(p *releasePass) { p.policy.TakeOwnership = true }, false},
		"in a wave": {func(p *releasePass) {
			p.release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, Reason: addonsv1.ReleaseRolloutJoined}
			p.helmOp.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{}}}
		}, false},
		"images are checked": {func(p *releasePass) {
			p.helmOp.Spec.Preflight = &addonsv1.Preflight{Images: addonsv1.ImagesPreflightRequired}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetCreationTimestamp(metav1.NewTime(now.Add(time.Second - newClusterAge)))
			p := &releasePass{releaseScope: &releaseScope{object: object, helmOp: &addonsv1.HelmOp{},
				release: controllertest.ReleaseFor("fleet", "r", addonsv1.ClusterReference{Name: "one"})}}
			tc.change(p)
			if got := p.looksNew(now); got != tc.want {
				t.Errorf("looks new: %t", got)
			}
		})
	}
}

// newEngine is an engine of a new Cluster. It counts the reads of records.
type newEngine struct {
	actingEngine
	// all and single count the lists of all records, and the reads of one release.
	all, single int
	// used has the namespaces with records.
	used map[string]bool
	// records are the records of the release.
	records []model.Record
	// acted has the decisions that were carried out. result and err are the result of each of them.
	acted  []decide.Decision
	result helmclient.Result
	err    error
}

func (*newEngine) MayBeNew(model.Target, model.Desired, model.Options) bool { return true }

func (e *newEngine) Observe(context.Context, model.Target, string, string) (model.Observation, error) {
	e.single++
	return model.Observation{Records: e.records}, nil
}

func (e *newEngine) ObserveCluster(context.Context, model.Target, string, string) (model.Observation, map[string]bool,
	error) {
	e.all++
	return model.Observation{Records: e.records}, e.used, nil
}

func (e *newEngine) Act(_ context.Context, _ model.Target, decision decide.Decision, _ model.Desired, _ model.Options,
	_ *bundle.Chart, _ map[string]any,
) (helmclient.Result, error) {
	e.acted = append(e.acted, decision)
	return e.result, e.err
}

// newBench is a release in a new Cluster. Another release of the Cluster was read a moment ago.
type newBench struct {
	*upgradeBench
	engine *newEngine
}

func newNewBench(t *testing.T, template string) *newBench {
	t.Helper()
	b := &newBench{upgradeBench: newActBench(t, template), engine: &newEngine{used: map[string]bool{}}}
	b.Cluster.CreationTimestamp = metav1.NewTime(b.now)
	b.Release.Spec.Health = &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled}
	b.r.engine, b.r.reads = b.engine, recordreads.New(1, clusterlink.New(clusterlink.Options{}))
	b.readOther()
	return b
}

// readOther reads the records of another release in the Cluster.
func (b *newBench) readOther() {
	b.Helper()
	p := b.newPass()
	p.release = p.release.DeepCopy()
	p.release.Name, p.release.UID = "other", "other"
	if _, err, ok := b.r.observeNew(b.Context(), p); !ok || err != nil {
		b.Fatal(ok, err)
	}
	b.engine.all, b.engine.single = 0, 0
}

// pass makes the part of a pass from the read of the records. It returns the pass, and whether the next pass is due at
// once.
func (b *newBench) pass() (p *releasePass, again bool) {
	b.Helper()
	p = b.newPass()
	p.policy = releasespec.PolicyOf(&b.Release.Spec)
	p.desired, p.options = releasespec.DesiredOf(b.Release)
	p.subject().InitRetryRequest()
	result, err := run(b.Context(), p, b.r.checkNew, b.r.observeRecords, b.r.assess, b.r.carryOut)
	b.r.slots.Settle(client.ObjectKeyFromObject(b.Release))
	if err != nil {
		b.Fatal(err)
	}
	p.settleStatus()
	return p, result.RequeueAfter > 0 && result.RequeueAfter <= time.Millisecond
}

// wantReads checks the number of reads so far.
func (b *newBench) wantReads(what string, all, single int) {
	b.Helper()
	if b.engine.all != all || b.engine.single != single {
		b.Errorf("%s: %d lists of all records and %d reads of the release, want %d and %d", what, b.engine.all,
			b.engine.single, all, single)
	}
}

// TestAssumedReleaseWaitsForChart checks that a release in a new Cluster reads no records while it waits for its chart.
func TestAssumedReleaseWaitsForChart(t *testing.T) {
	t.Parallel()
	b := newNewBench(t, "a: b")
	b.engine.result = helmclient.Result{Revision: 1, Status: "deployed", StorageChanged: true}
	b.parse(false)
	for range 2 {
		if _, again := b.pass(); again || b.Release.Status.State != string(model.StateAbsent) || len(b.engine.acted) > 0 {
			t.Errorf("the chart is not parsed: again %t, %+v", again, b.Release.Status)
		}
	}
	b.parse(true)
	b.pass()
	b.wantReads("the chart is there", 0, 0)
	if len(b.engine.acted) != 1 {
		t.Errorf("actions %+v", b.engine.acted)
	}
}

// TestAssumedReleaseIsInstalled checks that the first installation in a new Cluster reads no records, also after a wait
// for a slot.
func TestAssumedReleaseIsInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNewBench(t, "a: b")
		b.engine.result = helmclient.Result{Revision: 1, Status: "deployed", StorageChanged: true,
			Changes: &model.RecordChanges{}}
		done := b.takeSlot()
		for range 2 {
			<-time.After(6 * time.Second)
			if _, again := b.pass(); again || b.Release.Status.State != string(model.StateAbsent) {
				t.Errorf("no slot is free: again %t, %+v", again, b.Release.Status)
			}
		}
		done()
		b.pass()
		b.wantReads("installed", 0, 0)
		if len(b.engine.acted) != 1 || !b.engine.acted[0].Assumed ||
			b.Release.Status.State != string(model.StateInSync) || !conditions.IsTrue(b.Release, addonsv1.ReleasedCondition) {
			t.Errorf("actions %+v, status %+v", b.engine.acted, b.Release.Status)
		}
	})
}

// TestReadFollowsAssumption checks that a pass that assumes that its release has no records reports its failure like
// any other pass, and that the next pass reads the records.
func TestReadFollowsAssumption(t *testing.T) {
	stale := &helmerr.Error{Kind: helmerr.ErrStale, Message: "stale"}
	own := model.Record{Revision: 7, LabelledRevision: 7, Status: model.StatusDeployed}
	type report struct {
		state             model.State
		reason, lastError string
		// events is the number of Events: for each problem, one about the release and one about its HelmOp.
		events int
	}
	for name, tc := range map[string]struct {
		template string
		prepare  func(b *newBench)
		// acted is the number of actions of both passes.
		acted int
		// first and second are the reports of the two passes.
		first, second report
	}{
		"values cannot be rendered": {template: `a: {{ fail "because" }}`,
			first:  report{model.StateAbsent, addonsv1.TemplateFailedReason, "because", 2},
			second: report{model.StateAbsent, addonsv1.TemplateFailedReason, "because", 2}},
		"the release has records of another owner": {acted: 1, prepare: func(b *newBench) {
			b.engine.err, b.engine.records = stale, []model.Record{own}
		},
			first:  report{model.StateAbsent, addonsv1.UpdatingReason, "", 0},
			second: report{model.StateForeign, addonsv1.ReleaseConflictReason, "", 2}},
		"the rendering exceeds its limits": {acted: 1, prepare: func(b *newBench) {
			b.engine.err = &helmerr.Error{Kind: helmerr.ErrRenderLimit, Message: "too much"}
		},
			first:  report{model.StateAbsent, addonsv1.RenderLimitExceededReason, "too much", 2},
			second: report{model.StateAbsent, addonsv1.RenderLimitExceededReason, "too much", 2}},
		"the Cluster does not respond": {acted: 2, prepare: func(b *newBench) {
			b.engine.err = &helmerr.Error{Kind: helmerr.ErrUnreachable, Message: "no response"}
		},
			first:  report{model.StateUnreachable, addonsv1.ClusterUnreachableReason, "", 0},
			second: report{model.StateUnreachable, addonsv1.ClusterUnreachableReason, "", 0}},
		"the release waits for maintenance": {prepare: func(b *newBench) {
			b.HelmOp.Spec.Maintenance = &addonsv1.Maintenance{Freezes: []addonsv1.MaintenanceFreeze{{
				From: metav1.NewTime(b.now.Add(-time.Hour)), Until: metav1.NewTime(b.now.Add(time.Hour))}},
				Includes: []addonsv1.MaintenanceScope{addonsv1.MaintenanceInstallation}}
		},
			first:  report{model.StateAbsent, addonsv1.WaitingForMaintenanceReason, "", 0},
			second: report{model.StateAbsent, addonsv1.WaitingForMaintenanceReason, "", 0}},
		"the release waits for a dependency": {prepare: func(b *newBench) {
			b.Release.Spec.DependsOn = []addonsv1.Dependency{{Name: "missing"}}
		},
			first:  report{model.StateAbsent, addonsv1.WaitingForDependenciesReason, "", 0},
			second: report{model.StateAbsent, addonsv1.WaitingForDependenciesReason, "", 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newNewBench(t, tc.template)
				if tc.prepare != nil {
					tc.prepare(b)
				}
				check := func(what string, want report) {
					t.Helper()
					status := &b.Release.Status
					got := report{model.State(status.State), conditions.GetReason(b.Release, addonsv1.ReadyCondition),
						status.LastError, len(b.recorder.Events)}
					if !strings.Contains(got.lastError, want.lastError) || (got.lastError == "") != (want.lastError == "") {
						t.Errorf("%s: the error is %q", what, got.lastError)
					}
					if got.lastError = want.lastError; got != want {
						t.Errorf("%s reports %+v, want %+v", what, got, want)
					}
				}
				b.pass()
				b.wantReads("the first pass", 0, 0)
				check("the first pass", tc.first)
				b.pass()
				b.wantReads("the second pass", 0, 1)
				check("the second pass", tc.second)
				if len(b.engine.acted) != tc.acted {
					t.Errorf("actions %+v", b.engine.acted)
				}
			})
		})
	}
}

// TestFailedAssumptionIsNotRepeated checks a release whose first installation fails without an error in its status, and
// that then waits for a slot: it does not install again on the basis of the list of another release.
func TestFailedAssumptionIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNewBench(t, "a: b")
		b.engine.err = &helmerr.Error{Kind: helmerr.ErrBusy, Message: "busy"}
		b.pass()
		done := b.takeSlot()
		b.pass()
		<-time.After(6 * time.Second)
		done()
		b.pass()
		b.wantReads("after the wait", 0, 2)
		if acted := b.engine.acted; len(acted) != 2 || !acted[0].Assumed || acted[1].Assumed ||
			b.Release.Status.LastError != "" {
			t.Errorf("actions %+v, status %+v", acted, b.Release.Status)
		}
	})
}

// TestOtherDecisionEndsPreparation checks that a release whose records show after the begin of a preparation that no
// installation follows has no preparation in its status: a later manager would wait.
func TestOtherDecisionEndsPreparation(t *testing.T) {
	t.Parallel()
	carryOut := func(decision decide.Decision) func(b *newBench, p *releasePass) (*ctrl.Result, error) {
		return func(b *newBench, p *releasePass) (*ctrl.Result, error) {
			p.decision = decision
			return b.r.carryOut(b.Context(), p)
		}
	}
	for name, step := range map[string]func(b *newBench, p *releasePass) (*ctrl.Result, error){
		"waits":   carryOut(decide.Decision{Action: model.ActionWait, Reason: decide.ReasonPendingOtherOwner}),
		"stalls":  carryOut(decide.Decision{Action: model.ActionStall, Reason: decide.ReasonBackoff}),
		"refuses": carryOut(decide.Decision{Action: model.ActionRefuse, Reason: decide.ReasonPendingOtherOwner}),
		"belongs to another Cluster": func(b *newBench, p *releasePass) (*ctrl.Result, error) {
			other := controllertest.ReleaseFor(b.Release.Namespace, "other", addonsv1.ClusterReference{Name: "other"})
			other.UID = "other"
			b.r.client = controllertest.StoreOf(b.T, b.Release.DeepCopy(), other)
			b.r.kubeconfigs = clusterview.SafeKubeconfigs(b.r.client)
			p.observation.Records = []model.Record{{Revision: 1, UID: "other"}}
			return b.r.checkSameCluster(b.Context(), p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newNewBench(t, "a: b")
			p := b.newPass()
			p.release.Status.Preparation = b.r.memoryOf(p.release).Preparation.Begin(p.subject(), &p.before.Status, b.now)
			if _, err := step(b, p); err != nil || p.release.Status.Preparation != nil {
				t.Errorf("%v; the preparation is %+v", err, p.release.Status.Preparation)
			}
		})
	}
}

// TestAssumptionNeedsList checks that a release is read if the list of all records does not show that it has none.
func TestAssumptionNeedsList(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(b *newBench)
		all, single int
	}{
		"list of a moment ago": {change: func(*newBench) {}},
		"list expired":         {change: func(*newBench) { <-time.After(time.Minute) }, all: 1},
		"namespace has records": {single: 1, change: func(b *newBench) {
			b.r.reads.Forget(client.ObjectKeyFromObject(b.Cluster))
			b.engine.used = map[string]bool{b.Release.Spec.Release.Namespace: true}
			b.readOther()
		}},
		"records have changed": {single: 1, change: func(b *newBench) { b.r.memoryOf(b.Release).Records.Outdate() }},
		"older Cluster":        {single: 1, change: func(b *newBench) { b.Cluster.CreationTimestamp = metav1.Time{} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newNewBench(t, "a: b")
				b.engine.err = &helmerr.Error{Kind: helmerr.ErrStale, Message: "stale"}
				tc.change(b)
				b.pass()
				b.wantReads("the pass", tc.all, tc.single)
				if isAssumed := tc.all+tc.single == 0; len(b.engine.acted) != 1 || b.engine.acted[0].Assumed != isAssumed {
					t.Errorf("actions %+v", b.engine.acted)
				}
			})
		})
	}
}

// TestFailedFirstInstallationIsRecorded checks that a failed action is reported if it wrote a record: then the release
// had none.
func TestFailedFirstInstallationIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNewBench(t, "a: b")
		b.engine.result = helmclient.Result{Revision: 1, Status: "failed", StorageChanged: true}
		b.engine.err = &helmerr.Error{Message: "because", StorageChanged: true}
		b.pass()
		b.wantReads("the pass", 0, 0)
		if status := &b.Release.Status; status.Failures != 1 || len(status.History) != 1 ||
			!strings.Contains(status.LastError, "because") || status.State != string(model.StateAbsent) {
			t.Errorf("the status is %+v", status)
		}
		b.pass()
		b.wantReads("the next pass", 0, 1)
	})
}
