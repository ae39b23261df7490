// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// healthBench has a release whose revision 2 is the desired state. It was deployed long ago, and a rollback returns to
// revision 1.
type healthBench struct {
	*testing.T
	r       *Reconciler
	now     time.Time
	release *addonsv1.HelmOpRelease
	objects map[inventory.Ref]objectwatch.State
	watched objectwatch.Snapshot

	// spared are the objects that the watch error does not affect.
	spared map[inventory.Ref]bool

	policy model.Policy

	// changedAt is the time of the last write of the records. Default: long ago.
	changedAt time.Time

	// unreadable is the error for reads of the release's records.
	unreadable error
}

// healthEngine and healthWatcher replace the cluster of the release in a healthBench.
type (
	healthEngine struct {
		Engine
		bench *healthBench
	}
	healthWatcher struct {
		Watcher
		bench *healthBench
	}
)

func (e healthEngine) Manifest(_ context.Context, _ model.Target, _, _ string, _ int, _ bool,
	use func([]*unstructured.Unstructured),
) error {
	if e.bench.unreadable != nil {
		return e.bench.unreadable
	}
	var objects []*unstructured.Unstructured
	for ref := range e.bench.objects {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(ref.APIVersion())
		object.SetKind(ref.Kind)
		object.SetNamespace(ref.Namespace)
		object.SetName(ref.Name)
		objects = append(objects, object)
	}
	use(objects)
	return nil
}

func (e healthEngine) Access(model.Target) (*model.Access, error) {
	return &model.Access{}, nil
}

func (w healthWatcher) Follow(types.NamespacedName, objectwatch.Connection, objectwatch.Plan) {}
func (w healthWatcher) Forget(types.NamespacedName)                                           {}
func (healthWatcher) List(types.NamespacedName)                                               {}
func (healthWatcher) Installed(types.NamespacedName)                                          {}

func (w healthWatcher) Look(types.NamespacedName) (objectwatch.Snapshot, bool) {
	snapshot := w.bench.watched
	snapshot.Objects = map[inventory.Ref]objectwatch.State{}
	for ref, state := range w.bench.objects {
		isFound := state.Exists || state.Health == health.NotFound || state.Message != ""
		state.Known = isFound && (snapshot.Synced || w.bench.spared[ref])
		if snapshot.Err != nil && !w.bench.spared[ref] {
			state.WatchError = &objectwatch.WatchError{Err: snapshot.Err, Since: snapshot.ErrSince}
			if snapshot.ErrSince.IsZero() {
				state.WatchError.Since = w.bench.now
			}
		}
		snapshot.Objects[ref] = state
	}
	return snapshot, true
}

func newHealthBench(t *testing.T) *healthBench {
	b := &healthBench{
		T: t, now: time.Unix(1_800_000_000, 0),
		release: &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one", Generation: 1,
			UID: "u"}},
		objects: map[inventory.Ref]objectwatch.State{controllertest.Deployment: {Exists: true, UID: "d", Generation: 2,
			Health: health.InProgress}},
		watched: objectwatch.Snapshot{Synced: true},
		policy:  model.Policy{Upgrade: model.FailurePolicy{Remediate: model.RemediateRollback}},
	}
	b.r = &Reconciler{
		now:   func() time.Time { return b.now },
		slots: newActionSlots(4, 0, &async.Waker{}), recorder: events.NewFakeRecorder(100), engine: healthEngine{bench: b},
		watcher: healthWatcher{bench: b},
	}
	return b
}

// begin returns a pass that has observed the release.
func (b *healthBench) begin() *releasePass {
	desired := model.Desired{
		Name: "web", Namespace: "apps", Owner: "fleet.web", ArtifactDigest: "a2", ValuesDigest: "v", OptionsDigest: "o",
	}
	desired.UID = string(b.release.UID)
	changedAt := b.changedAt
	if changedAt.IsZero() {
		changedAt = b.now.Add(-7 * 24 * time.Hour)
	}
	record := func(revision int, status, artifact string) model.Record {
		return model.Record{
			Revision: revision, Status: status, Owner: "fleet.web", UID: "u", ArtifactDigest: artifact, ValuesDigest: "v",
			OptionsDigest: "o", LabelledRevision: revision, ChangedAt: changedAt,
		}
	}
	return &releasePass{
		releaseScope: &releaseScope{release: b.release, helmOp: &addonsv1.HelmOp{}}, desired: desired,
		policy: b.policy,
		observation: model.Observation{Records: []model.Record{record(2, model.StatusDeployed, "a2"),
			record(1, "superseded", "a1")}},
	}
}

// deploy reports the action that made revision 2. generations are the generations after this action.
func (b *healthBench) deploy(generations map[inventory.Ref]model.Generation) {
	result := helmclient.Result{Revision: 2, Generations: generations}
	for ref := range b.objects {
		result.Objects = append(result.Objects, ref)
	}
	// Helm's time is the start of the action, before the hooks run.
	result.LastDeployed = b.now.Add(-time.Hour)
	b.r.followNew(context.Background(), b.begin(), result)
}

// pass makes a pass some time after the previous pass and returns its action. It also checks the condition Healthy.
func (b *healthBench) pass(after time.Duration, status metav1.ConditionStatus, reason string) model.Action {
	b.Helper()
	b.now = b.now.Add(after)
	p := b.begin()
	b.r.follow(context.Background(), p)
	b.r.assessHealth(p)
	b.r.listForRetry(p)
	b.r.decide(p)
	decision := p.decision
	if decision.Action == model.ActionNone {
		if _, err := b.r.carryOut(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
	healthy := conditions.Get(b.release, addonsv1.HealthyCondition)
	if healthy == nil || healthy.Status != status || healthy.Reason != reason {
		b.Fatalf("Healthy is %v, want %s, %s", healthy, status, reason)
	}
	if isReady := conditions.IsTrue(b.release, addonsv1.ReadyCondition); decision.Action == model.ActionNone &&
		isReady != (status == report.True) {
		b.Fatalf("Ready is %t while Healthy is %s", isReady, status)
	}
	if isWaiting := b.r.slots.IsWaiting(client.ObjectKeyFromObject(b.release)); healthy.Status == metav1Unknown &&
		p.requeueAfter == 0 && !isWaiting {
		b.Fatal("nothing enqueues the release again")
	}
	return decision.Action
}

func (b *healthBench) is(ref inventory.Ref, status health.Status) {
	state := b.objects[ref]
	state.Health, state.Exists = status, status != health.NotFound
	b.objects[ref] = state
}

func (b *healthBench) want(action, want model.Action) {
	b.Helper()
	if action != want {
		b.Fatalf("%s, want %s", action, want)
	}
}

func TestUnhealthyRevisionIsRolledBack(t *testing.T) {
	t.Parallel()
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		b := newHealthBench(t)
		b.deploy(nil)
		b.want(b.pass(4*time.Minute, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
		b.want(b.pass(time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionRollback)
		// The rollback may have to wait for a slot for any time.
		b.want(b.pass(time.Hour, report.False, addonsv1.HealthTimeoutReason), model.ActionRollback)
		b.is(controllertest.Deployment, health.Current)
		b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		b := newHealthBench(t)
		b.deploy(nil)
		b.is(controllertest.Deployment, health.Failed)
		b.want(b.pass(time.Second, report.False, addonsv1.HealthFailedReason), model.ActionRollback)
	})
	t.Run("deleted after the action", func(t *testing.T) {
		t.Parallel()
		b := newHealthBench(t)
		b.deploy(map[inventory.Ref]model.Generation{controllertest.Deployment: {UID: "new", Number: 1}})
		b.is(controllertest.Deployment, health.NotFound)
		b.want(b.pass(30*time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
		b.want(b.pass(30*time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionRollback)
	})
}

// TestFailoverToOtherClock moves a release to a manager whose clock is ahead or behind, while the revision becomes
// healthy. The revision must not time out before the manager has observed it for a minute, and must time out within the
// timeout. A timeout that the previous manager reported stays.
func TestFailoverToOtherClock(t *testing.T) {
	t.Parallel()
	const ahead, longAhead, behind = 7 * time.Minute, 8*time.Minute + 30*time.Second, -2 * time.Hour
	for name, tc := range map[string]struct {
		ahead  time.Duration
		before func(b *healthBench)
		then   func(b *healthBench)
	}{
		"the revision becomes healthy": {ahead, func(*healthBench) {}, func(b *healthBench) {
			b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(59*time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.is(controllertest.Deployment, health.Current)
			b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
		}},
		"the revision does not become healthy": {ahead, func(*healthBench) {}, func(b *healthBench) {
			b.want(b.pass(0, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionRollback)
		}},
		"twice the timeout ends in this minute": {longAhead, func(*healthBench) {}, func(b *healthBench) {
			b.want(b.pass(0, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(40*time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(20*time.Second, report.False, addonsv1.HealthTimeoutReason), model.ActionRollback)
		}},
		"the objects are not observed at first": {ahead, func(*healthBench) {}, func(b *healthBench) {
			b.watched.Synced = false
			deployment := b.objects[controllertest.Deployment]
			b.objects[controllertest.Deployment] = objectwatch.State{}
			b.want(b.pass(0, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.objects[controllertest.Deployment], b.watched.Synced = deployment, true
			b.want(b.pass(time.Minute, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
		}},
		"the revision had timed out": {ahead, func(b *healthBench) {
			b.want(b.pass(4*time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionRollback)
		}, func(b *healthBench) {
			b.want(b.pass(0, report.False, addonsv1.HealthTimeoutReason), model.ActionRollback)
		}},
		"the revision was healthy, and is in progress": {ahead, func(b *healthBench) {
			b.is(controllertest.Deployment, health.Current)
			b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
			b.is(controllertest.Deployment, health.InProgress)
			b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
		}, func(b *healthBench) {
			b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
			b.want(b.pass(time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionNone)
		}},
		"the clock is behind": {behind, func(*healthBench) {}, func(b *healthBench) {
			b.want(b.pass(0, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(health.DefaultTimeout, report.False, addonsv1.HealthTimeoutReason), model.ActionRollback)
		}},
		"the clock is behind, and the revision was healthy": {behind, func(b *healthBench) {
			b.is(controllertest.Deployment, health.Current)
			b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
			b.is(controllertest.Deployment, health.InProgress)
			b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
		}, func(b *healthBench) {
			b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
			b.want(b.pass(health.DefaultTimeout, report.False, addonsv1.HealthTimeoutReason), model.ActionNone)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHealthBench(t)
			b.deploy(nil)
			b.want(b.pass(time.Minute, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			tc.before(b)
			b.r.memories.Drop(client.ObjectKeyFromObject(b.release))
			b.now = b.now.Add(tc.ahead)
			tc.then(b)
		})
	}
}

// TestUnwatchedRevisionIsNotRolledBack checks that a revision without a watch since its deployment is not rolled back.
// The revision may have been healthy.
func TestUnwatchedRevisionIsNotRolledBack(t *testing.T) {
	t.Parallel()
	healthy := func(b *healthBench) {
		b.deploy(nil)
		b.is(controllertest.Deployment, health.Current)
		b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
		b.is(controllertest.Deployment, health.InProgress)
	}
	for name, lose := range map[string]func(b *healthBench){
		"the status is lost": func(b *healthBench) { healthy(b); b.release.Status = addonsv1.HelmOpReleaseStatus{} },
		"health was disabled for a while": func(b *healthBench) {
			healthy(b)
			b.release.Spec.Health = &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled}
			b.r.assessHealth(b.begin())
			b.release.Spec.Health = nil
		},
		"the status is of the previous revision": func(b *healthBench) {
			b.release.Status.Inventory = releaseinventory.Of(&b.release.Spec, []inventory.Ref{controllertest.Deployment}, 1)
			b.release.Status.Health = &addonsv1.HealthStatus{Revision: 1, Deployed: true,
				Since: metav1.NewTime(b.now.Add(-time.Hour)), Failed: true}
			b.release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1,
				LastDeployed: metav1.NewTime(b.now.Add(-time.Hour))}
			report.SetCondition(b.release, addonsv1.HealthyCondition, report.True, addonsv1.HealthyReason, "")
		},
		"it was paused for long right after its deployment": func(b *healthBench) {
			b.deploy(nil)
			b.now = b.now.Add(7 * 24 * time.Hour)
		},
		"it was paused for long after its first observation": func(b *healthBench) {
			b.deploy(nil)
			b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.now = b.now.Add(7 * 24 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHealthBench(t)
			lose(b)
			b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(4*time.Minute, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(2*time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionNone)
			b.is(controllertest.Deployment, health.Failed)
			b.want(b.pass(time.Minute, report.False, addonsv1.HealthFailedReason), model.ActionNone)
		})
	}
}

// TestTestsWaitForHealth checks that tests run only when the release is healthy. Earlier tests would use the previous
// workloads or find none.
func TestTestsWaitForHealth(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *healthBench {
		b := newHealthBench(t)
		b.release.Spec.Test = &addonsv1.TestOptions{Mode: addonsv1.TestModeEnabled}
		b.policy.Test.Enabled = true
		b.deploy(nil)
		b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
		if tested := conditions.Get(b.release, addonsv1.TestedCondition); tested == nil ||
			tested.Reason != addonsv1.TestsPendingReason {
			t.Errorf("Tested is %v", tested)
		}
		return b
	}
	t.Run("healthy", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		b.is(controllertest.Deployment, health.Current)
		b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionTest)
	})
	t.Run("unhealthy", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		b.policy.Upgrade.Remediate = model.RemediateNothing
		b.want(b.pass(6*time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionTest)
	})
	t.Run("unobserved", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		b.watched = objectwatch.Snapshot{Err: errors.New("watch deployments: 500"),
			ErrSince: b.now.Add(-objectwatch.StuckAfter)}
		b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthUnknownReason), model.ActionTest)
	})
	t.Run("not watched since its deployment", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		b.release.Status.Health.Deployed = false
		b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionTest)
	})
}

// TestHealthOfRevisionWithoutStatus checks the health of a revision. The manager stopped after the deployment and
// before the write of the status.
func TestHealthOfRevisionWithoutStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		changed time.Duration
		uid     types.UID
		want    model.Action
	}{
		"a moment ago":                 {-time.Second, "u", model.ActionRollback},
		"by a clock far ahead":         {time.Hour, "u", model.ActionRollback},
		"long ago":                     {-time.Hour, "u", model.ActionNone},
		"for a release of another UID": {-time.Second, "before the move", model.ActionNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHealthBench(t)
			b.release.Status.Health = &addonsv1.HealthStatus{Revision: 1, Deployed: true, WasHealthy: true}
			b.changedAt = b.now.Add(tc.changed)
			b.release.UID = tc.uid
			b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.want(b.pass(6*time.Minute, report.False, addonsv1.HealthTimeoutReason), tc.want)
		})
	}
}

func TestUnobservedStateDoesNotRollBack(t *testing.T) {
	t.Parallel()
	written := map[inventory.Ref]model.Generation{controllertest.Deployment: {UID: "d", Number: 5}}
	for name, hide := range map[string]func(b *healthBench){
		"the watch shows an earlier state": func(b *healthBench) { b.is(controllertest.Deployment, health.Failed) },
		"a failed watch shows it in progress": func(b *healthBench) {
			b.objects[controllertest.Deployment] = objectwatch.State{Exists: true, UID: "d", Generation: 5,
				Health: health.InProgress}
			b.watched.Err = errors.New("watch widgets: 500")
		},
		"another object is not checked yet": func(b *healthBench) {
			b.objects[controllertest.Custom] = objectwatch.State{Health: health.Unknown}
		},
		"another object may not be read": func(b *healthBench) {
			b.objects[controllertest.Custom] = objectwatch.State{Health: health.Unknown, Message: "may not be read"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHealthBench(t)
			hide(b)
			b.deploy(written)
			for range 8 {
				b.now = b.now.Add(time.Minute)
				p := b.begin()
				b.r.follow(context.Background(), p)
				b.r.assessHealth(p)
				b.r.decide(p)
				b.want(p.decision.Action, model.ActionNone)
				if conditions.IsTrue(b.release, addonsv1.HealthyCondition) || p.requeueAfter == 0 {
					t.Fatalf("Healthy is %v, next pass in %s", conditions.Get(b.release, addonsv1.HealthyCondition), p.requeueAfter)
				}
			}
		})
	}
	t.Run("an object was re-created", func(t *testing.T) {
		t.Parallel()
		b := newHealthBench(t)
		b.deploy(written)
		b.objects[controllertest.Deployment] = objectwatch.State{Exists: true, UID: "e", Generation: 1,
			Health: health.Current}
		b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
		b.want(b.pass(time.Minute, report.True, addonsv1.HealthyReason), model.ActionNone)
	})
}

// TestHealthIsUnknownWithoutInventory checks that the health is unknown if the inventory of the current revision cannot
// be read.
func TestHealthIsUnknownWithoutInventory(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(b *healthBench){
		"lost": func(*healthBench) {},
		"of the previous revision": func(b *healthBench) {
			b.release.Status.Inventory = releaseinventory.Of(&b.release.Spec, []inventory.Ref{controllertest.Deployment}, 1)
			b.release.Status.Health = &addonsv1.HealthStatus{Revision: 1, WasHealthy: true}
			report.SetCondition(b.release, addonsv1.HealthyCondition, report.True, addonsv1.HealthyReason, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHealthBench(t)
			before(b)
			b.is(controllertest.Deployment, health.Current)
			b.unreadable = errors.New("the record is damaged")
			b.want(b.pass(0, metav1Unknown, addonsv1.HealthUnknownReason), model.ActionNone)
			if message := conditions.GetMessage(b.release, addonsv1.ReadyCondition); !strings.Contains(message,
				"the record is damaged") {
				t.Errorf("the cause is missing: %s", message)
			}
			b.unreadable = nil
			b.want(b.pass(time.Minute, report.True, addonsv1.HealthyReason), model.ActionNone)
		})
	}
	t.Run("no free slot", func(t *testing.T) {
		t.Parallel()
		b := newHealthBench(t)
		b.r.slots = newActionSlots(1, 0, &async.Waker{})
		done, _ := b.r.slots.Acquire(slots.Claim{HelmOp: "fleet.web"})
		b.want(b.pass(0, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
		done()
		b.want(b.pass(0, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
	})
}

func TestFailedWatchDoesNotHideOtherObjects(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.objects[controllertest.Custom] = objectwatch.State{Exists: true, UID: "w", Health: health.Current}
	b.deploy(nil)
	b.is(controllertest.Deployment, health.Current)
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	// The manager restarts, and the list of one kind always fails.
	b.objects[controllertest.Custom] = objectwatch.State{Health: health.Unknown}
	b.watched = objectwatch.Snapshot{Err: errors.New("watch widgets: 500")}
	b.pass(time.Second, report.True, addonsv1.HealthyReason)
	b.is(controllertest.Deployment, health.Failed)
	b.want(b.pass(time.Second, report.False, addonsv1.HealthFailedReason), model.ActionNone)
	b.is(controllertest.Deployment, health.Current)
	b.pass(time.Second, report.False, addonsv1.HealthFailedReason)
	b.pass(objectwatch.StuckAfter, metav1Unknown, addonsv1.HealthUnknownReason)
	if message := conditions.GetMessage(b.release, addonsv1.HealthyCondition); !strings.Contains(message, "widgets: 500") {
		t.Errorf("the cause is missing: %s", message)
	}
	b.objects[controllertest.Custom] = objectwatch.State{Exists: true, UID: "w", Health: health.Current}
	b.watched = objectwatch.Snapshot{Synced: true}
	b.pass(time.Second, report.True, addonsv1.HealthyReason)
}

func TestHealthTimeoutStaysWithFailedWatch(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.objects[controllertest.Custom] = objectwatch.State{Health: health.Unknown}
	b.spared = map[inventory.Ref]bool{controllertest.Deployment: true}
	b.deploy(nil)
	b.watched = objectwatch.Snapshot{Err: errors.New("watch widgets: 500")}
	b.pass(4*time.Minute, metav1Unknown, addonsv1.HealthUnknownReason)
	for range 4 {
		b.want(b.pass(4*time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionNone)
	}
	// The health of the object during the failed watch is not known.
	b.watched = objectwatch.Snapshot{Synced: true}
	b.objects[controllertest.Custom] = objectwatch.State{Exists: true, UID: "w", Health: health.Current}
	b.want(b.pass(time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionNone)
}

// TestOutageDoesNotTimeOut checks that a state from before an outage of the cluster does not count for the timeout: the
// objects may have become healthy meanwhile. After the outage, HelmOp observes the objects for a minute.
func TestOutageDoesNotTimeOut(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]objectwatch.Snapshot{
		"disconnected":                   {Err: objectwatch.ErrDisconnected},
		"connected again, not yet lists": {},
		"the watches fail":               {Synced: true, Err: errors.New("connection refused")},
	} {
		for _, wasHealthy := range []bool{false, true} {
			during, reason, action := metav1Unknown, addonsv1.HealthProgressingReason, model.ActionRollback
			if wasHealthy {
				during, reason, action = report.True, addonsv1.HealthyReason, model.ActionNone
			}
			begin := func(t *testing.T) *healthBench {
				b := newHealthBench(t)
				b.deploy(nil)
				if wasHealthy {
					b.is(controllertest.Deployment, health.Current)
					b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
					b.is(controllertest.Deployment, health.InProgress)
				}
				b.want(b.pass(30*time.Second, during, reason), model.ActionNone)
				b.watched = outage
				b.want(b.pass(time.Second, during, reason), model.ActionNone)
				b.want(b.pass(6*time.Minute, metav1Unknown, addonsv1.HealthUnknownReason), model.ActionNone)
				b.watched = objectwatch.Snapshot{Synced: true}
				return b
			}
			name := fmt.Sprintf("%s, healthy before: %t", name, wasHealthy)
			t.Run(name+", then healthy", func(t *testing.T) {
				t.Parallel()
				b := begin(t)
				b.is(controllertest.Deployment, health.Current)
				b.want(b.pass(0, report.True, addonsv1.HealthyReason), model.ActionNone)
			})
			t.Run(name+", then in progress", func(t *testing.T) {
				t.Parallel()
				b := begin(t)
				b.want(b.pass(0, during, reason), model.ActionNone)
				b.want(b.pass(59*time.Second, during, reason), model.ActionNone)
				b.want(b.pass(time.Second, report.False, addonsv1.HealthTimeoutReason), action)
				// A timeout that was reported stays during another outage.
				b.watched = outage
				b.want(b.pass(6*time.Minute, report.False, addonsv1.HealthTimeoutReason), model.ActionNone)
			})
		}
	}
}

func TestHealthStaysWhileAPIServerRestarts(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.deploy(nil)
	b.is(controllertest.Deployment, health.Current)
	b.pass(time.Second, report.True, addonsv1.HealthyReason)
	for range 2 {
		b.watched = objectwatch.Snapshot{Synced: true, Err: errors.New("connection refused"), ErrSince: b.now}
		b.pass(time.Minute, report.True, addonsv1.HealthyReason)
		b.watched = objectwatch.Snapshot{Err: objectwatch.ErrDisconnected, ErrSince: b.now}
		b.pass(time.Minute, report.True, addonsv1.HealthyReason)
		b.watched = objectwatch.Snapshot{Synced: true}
		b.pass(time.Minute, report.True, addonsv1.HealthyReason)
	}
	// An error counts from its start, even if no pass was made after it.
	b.watched = objectwatch.Snapshot{Synced: true, Err: errors.New("connection refused"),
		ErrSince: b.now.Add(-objectwatch.StuckAfter)}
	b.pass(0, metav1Unknown, addonsv1.HealthUnknownReason)
}

func TestMissingPermissionsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.deploy(nil)
	b.is(controllertest.Deployment, health.Current)
	b.pass(time.Second, report.True, addonsv1.HealthyReason)
	b.watched = objectwatch.Snapshot{Synced: true, Err: objectwatch.ErrForbidden}
	p := b.begin()
	b.r.follow(context.Background(), p)
	b.r.assessHealth(p)
	if reason := conditions.GetReason(b.release, addonsv1.HealthyCondition); reason != addonsv1.HealthUnknownReason {
		t.Errorf("Healthy is for the reason %s", reason)
	}
}

// TestMissingPermissionsDoNotMakeRevisionUnproven checks that missing permissions for watches do not make a revision
// unproven. Otherwise, a failure would roll back to the last revision before the permissions were lost.
func TestMissingPermissionsDoNotMakeRevisionUnproven(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.deploy(nil)
	for _, tc := range []struct {
		err  error
		want bool
	}{{nil, true}, {objectwatch.ErrForbidden, false}, {errors.New("connection refused"), true}} {
		b.watched = objectwatch.Snapshot{Synced: true, Err: tc.err}
		p := b.begin()
		b.r.follow(context.Background(), p)
		b.r.assessHealth(p)
		if got := p.past().Unproven; got != tc.want {
			t.Errorf("%v: unproven %t", tc.err, got)
		}
	}
}

func TestHealthIsRemovedWhenUnwatched(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	for name, observation := range map[string]model.Observation{
		"uninstalled by a user": {},
		"another owner":         {Records: []model.Record{{Revision: 7, Status: model.StatusDeployed, Owner: "other", UID: "x"}}},
	} {
		b.deploy(nil)
		report.SetCondition(b.release, addonsv1.HealthyCondition, report.True, addonsv1.HealthyReason, "")
		report.SetCondition(b.release, addonsv1.DriftedCondition, report.True, addonsv1.DriftDetectedReason, "")
		p := b.begin()
		p.observation = observation
		b.r.follow(context.Background(), p)
		b.r.assessHealth(p)
		if conditions.Has(b.release, addonsv1.HealthyCondition) || conditions.Has(b.release, addonsv1.DriftedCondition) {
			t.Errorf("%s: %v", name, b.release.Status.Conditions)
		}
	}
}

func TestHealthReportsTruncatedInventory(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.deploy(nil)
	b.release.Status.Inventory.Truncated = true
	b.is(controllertest.Deployment, health.Current)
	b.pass(time.Second, report.True, addonsv1.HealthyReason)
	message := conditions.GetMessage(b.release, addonsv1.HealthyCondition)
	if !strings.Contains(message, "2000") || strings.HasSuffix(message, "; ") {
		t.Errorf("%q", message)
	}
	b.is(controllertest.Deployment, health.Failed)
	b.pass(time.Second, report.False, addonsv1.HealthFailedReason)
	if message := conditions.GetMessage(b.release, addonsv1.HealthyCondition); !strings.Contains(message, "2000") ||
		!strings.Contains(message, "web") {
		t.Errorf("%q", message)
	}
}

// TestRecreatedJobDoesNotInheritHealth checks that a re-created Job does not have the health of the former Job. Both
// Jobs have the generation 1.
func TestRecreatedJobDoesNotInheritHealth(t *testing.T) {
	t.Parallel()
	job := inventory.Ref{Group: "batch", Version: "v1", Kind: "Job", Namespace: "apps", Name: "migrate"}
	b := newHealthBench(t)
	b.objects = map[inventory.Ref]objectwatch.State{job: {Exists: true, UID: "old", Generation: 1,
		Health: health.Current}}
	b.deploy(map[inventory.Ref]model.Generation{job: {UID: "new", Number: 1}})
	b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason)
	b.is(job, health.NotFound)
	b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason)
	b.objects[job] = objectwatch.State{Exists: true, UID: "new", Generation: 1, Health: health.Current}
	b.pass(time.Second, report.True, addonsv1.HealthyReason)
}

func TestHealthIgnoresWatchesForDrift(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"broken": errors.New("watch configmaps: 405"),
		"forbidden": objectwatch.ErrForbidden} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHealthBench(t)
			b.release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
			b.objects[controllertest.ConfigMap] = objectwatch.State{Health: health.Unknown}
			b.spared = map[inventory.Ref]bool{controllertest.Deployment: true}
			b.watched = objectwatch.Snapshot{Err: err, ErrSince: b.now}
			b.deploy(nil)
			b.want(b.pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason), model.ActionNone)
			b.is(controllertest.Deployment, health.Current)
			b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
			b.want(b.pass(2*objectwatch.StuckAfter, report.True, addonsv1.HealthyReason), model.ActionNone)

			b.is(controllertest.Deployment, health.Failed)
			b.deploy(nil)
			b.want(b.pass(time.Second, report.False, addonsv1.HealthFailedReason), model.ActionRollback)
		})
	}
}

// newMissingBench returns a healthy release with a ConfigMap whose existence was not checked yet.
func newMissingBench(t *testing.T) *healthBench {
	b := newHealthBench(t)
	b.objects[controllertest.ConfigMap] = objectwatch.State{Exists: true, Health: health.Unknown}
	b.deploy(nil)
	b.is(controllertest.Deployment, health.Current)
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	return b
}

func (b *healthBench) request(value string) {
	b.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: value}
}

// TestMissingObjectWithoutHealth checks that a release without one of its ConfigMaps is not healthy and names the
// ConfigMap. A retry request must cause one upgrade.
func TestMissingObjectWithoutHealth(t *testing.T) {
	t.Parallel()
	b := newMissingBench(t)
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
	message := conditions.GetMessage(b.release, addonsv1.HealthyCondition)
	if !strings.Contains(message, controllertest.ConfigMap.String()) ||
		!strings.Contains(message, "to create the missing objects") {
		t.Errorf("the message is %q", message)
	}
	b.request("now")
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionUpgrade)
	// The upgrade met the request, and the object exists.
	b.release.Status.LastRetryRequest = "now"
	b.is(controllertest.ConfigMap, health.Current)
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
}

// listingWatcher counts the calls of List.
type listingWatcher struct {
	healthWatcher
	listed int
}

func (w *listingWatcher) List(types.NamespacedName) { w.listed++ }

// TestRetryWaitsForList checks that a retry request counts as met only after the objects were listed.
func TestRetryWaitsForList(t *testing.T) {
	t.Parallel()
	b := newMissingBench(t)
	watcher := &listingWatcher{healthWatcher: healthWatcher{bench: b}}
	b.r.watcher = watcher
	b.release.Status.LastRetryRequest = ""
	b.request("now")
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	if watcher.listed != 1 || b.release.Status.LastRetryRequest != "" {
		t.Fatalf("listed %d times, the request %q counts as met", watcher.listed, b.release.Status.LastRetryRequest)
	}
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionUpgrade)
	// If no object is missing, the request is met.
	b.is(controllertest.ConfigMap, health.Current)
	b.request("later")
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	if watcher.listed != 2 || b.release.Status.LastRetryRequest != "later" {
		t.Errorf("listed %d times, the request %q counts as met", watcher.listed, b.release.Status.LastRetryRequest)
	}
}

// TestRetryRequestDoesNotWaitForEver checks that a retry request does not wait for what no later pass can read. If a
// request waits for a list, the passes become less and less frequent.
func TestRetryRequestDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	forbidden := fmt.Errorf("%w to list configmaps", objectwatch.ErrForbidden)
	for name, tc := range map[string]struct {
		// watched is why the ConfigMap cannot be listed. unread is why the manifest cannot be read.
		watched, unread error
		waits           bool
	}{
		"not listed yet":          {waits: true},
		"cannot be listed now":    {watched: errors.New("no connection"), waits: true},
		"may not be listed":       {watched: forbidden},
		"manifest not read yet":   {unread: errNoSlot, waits: true},
		"manifest may not":        {unread: helmerr.New(helmerr.ErrForbidden, "the user may not get Secrets")},
		"manifest is too large":   {unread: helmerr.New(helmerr.ErrTooLarge, "the record needs 120 MiB")},
		"manifest is damaged":     {unread: helmerr.New(helmerr.ErrRecordDamaged, "it cannot be decoded")},
		"cluster does not answer": {unread: helmerr.New(helmerr.ErrUnreachable, "no route to host"), waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMissingBench(t)
			b.watched.Synced, b.watched.Err = tc.unread != nil, tc.watched
			b.spared = map[inventory.Ref]bool{controllertest.Deployment: true}
			if b.unreadable = tc.unread; tc.unread != nil {
				b.release.Status.Inventory = nil
			}
			b.request("now")
			var delays []time.Duration
			isMet := false
			for end := b.now.Add(time.Hour); b.now.Before(end); {
				p := b.begin()
				b.r.follow(t.Context(), p)
				b.r.assessHealth(p)
				p.requeueAfter = 0 // Only the delay because of the request counts.
				if b.r.listForRetry(p); !p.isListing {
					isMet = true
					break
				}
				if p.requeueAfter <= 0 {
					t.Fatal("the request waits, and no pass follows")
				}
				delays = append(delays, p.requeueAfter)
				b.now = b.now.Add(p.requeueAfter)
			}
			// The first pass requests a list.
			if isMet == tc.waits || isMet && len(delays) > 1 || len(delays) > 20 ||
				len(delays) > 0 && delays[0] > time.Minute {
				t.Errorf("the request is met: %t; the delays are %v", isMet, delays)
			}
		})
	}
}

// TestRetryRestoresObjectsWithoutHealth checks that a retry request re-creates missing objects also if the health of
// the release is not followed.
func TestRetryRestoresObjectsWithoutHealth(t *testing.T) {
	t.Parallel()
	for mode, lists := range map[addonsv1.DriftMode]int{addonsv1.DriftModeDisabled: 1, addonsv1.DriftModeWarn: 0} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newHealthBench(t)
			watcher := &listingWatcher{healthWatcher: healthWatcher{bench: b}}
			b.r.watcher = watcher
			b.release.Spec.Health = &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled}
			b.release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: mode}
			b.is(controllertest.Deployment, health.Current)
			b.is(controllertest.ConfigMap, health.NotFound)
			pass := func(want model.Action) {
				t.Helper()
				p := b.begin()
				b.r.follow(t.Context(), p)
				b.r.assessHealth(p)
				b.r.listForRetry(p)
				b.r.decide(p)
				b.want(p.decision.Action, want)
				if want == model.ActionNone {
					if _, err := b.r.carryOut(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
			}
			isMet := func(want string) {
				t.Helper()
				if got := b.release.Status.LastRetryRequest; got != want || watcher.listed != lists {
					t.Fatalf("the request %q is met, want %q; listed %d times", got, want, watcher.listed)
				}
			}
			pass(model.ActionNone)
			b.request("now")
			// It is not known yet which objects exist. The request waits, also if the manifest cannot be read.
			b.watched.Synced = false
			pass(model.ActionNone)
			isMet("")
			b.watched.Synced = true
			pass(model.ActionUpgrade)
			b.release.Status.LastRetryRequest = "now"
			b.is(controllertest.ConfigMap, health.Current)
			b.request("later")
			lists *= 2
			b.release.Status.Inventory, b.unreadable = nil, errors.New("no connection")
			pass(model.ActionNone)
			if b.release.Status.LastRetryRequest != "now" {
				t.Fatal("the request is met although the manifest was not read")
			}
			b.unreadable = nil
			pass(model.ActionNone)
			pass(model.ActionNone)
			isMet("later")
			if isFollowed := b.release.Status.Inventory != nil; isFollowed != (mode == addonsv1.DriftModeWarn) {
				t.Errorf("the objects are followed after the request: %t", isFollowed)
			}
			if conditions.Has(b.release, addonsv1.HealthyCondition) {
				t.Error("the health is reported although it is not followed")
			}
			// A request must not wait for a manifest that no later pass can read.
			b.request("damaged")
			b.release.Status.Inventory, b.unreadable = nil, helmerr.New(helmerr.ErrRecordDamaged, "it cannot be decoded")
			pass(model.ActionNone)
			isMet("damaged")
			// A release that is not up to date needs no list: an action follows.
			b.request("absent")
			p := b.begin()
			p.observation = model.Observation{}
			b.r.follow(t.Context(), p)
			if b.r.listForRetry(p); p.isListing {
				t.Error("the objects of a release that is not installed are listed")
			}
		})
	}
}

// TestRestartedManagerKeepsMissingObjects checks a manager that has not listed the objects yet. If the status of a
// release has missing objects, the manager must not report the release as healthy.
func TestRestartedManagerKeepsMissingObjects(t *testing.T) {
	t.Parallel()
	b := newMissingBench(t)
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
	b.objects[controllertest.ConfigMap] = objectwatch.State{Exists: true, Health: health.Unknown}
	b.watched.Synced = false
	b.spared = map[inventory.Ref]bool{controllertest.Deployment: true}
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
	b.watched.Synced = true
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
}
