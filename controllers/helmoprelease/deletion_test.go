// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestUninstallBeforeDeletionTimesOut checks the Event of a release whose uninstallation did not end before the hold of
// the Cluster's deletion ended.
func TestUninstallBeforeDeletionTimesOut(t *testing.T) {
	t.Parallel()
	for beforeDelete, want := range map[bool]string{true: "was not uninstalled in time", false: ""} {
		recorder := events.NewFakeRecorder(2)
		r := &Reconciler{recorder: recorder, now: func() time.Time { return controllertest.LifeNow },
			budgets: report.NewEventBudgets(time.Now)}
		scope := &releaseScope{
			release: controllertest.HoldingRelease(time.Minute), helmOp: controllertest.HoldingHelmOp(),
			cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
		}
		if !beforeDelete {
			scope.release.Spec.BeforeClusterDelete, scope.helmOp.Spec.BeforeClusterDelete = nil, nil
		}
		if _, err := r.reconcileDelete(t.Context(), scope); err != nil || len(scope.release.Finalizers) != 0 {
			t.Fatalf("finalizers %v, err = %v", scope.release.Finalizers, err)
		}
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("beforeClusterDelete %t: event %q", beforeDelete, got)
		}
	}
}

// TestRemovedReleaseIsLeftAlone checks that no pass follows over a HelmOpRelease whose finalizer was removed, while the
// cache still has the finalizer. A new HelmOpRelease of the same name is reconciled.
func TestRemovedReleaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	stale := controllertest.HoldingRelease(time.Minute)
	stale.UID, stale.Finalizers = "uid-1", []string{addonsv1.HelmOpReleaseFinalizer}
	removed, kept, created := stale.DeepCopy(), stale.DeepCopy(), stale.DeepCopy()
	removeFinalizer(removed)
	created.UID = "uid-2"
	for name, tc := range map[string]struct {
		written, cached *addonsv1.HelmOpRelease
		want            bool
	}{
		"the finalizer was removed":      {written: removed, cached: stale, want: true},
		"the cache shows this":           {written: removed, cached: removed},
		"another release was created":    {written: removed, cached: created},
		"the finalizer was not removed":  {written: kept, cached: stale},
		"another manager had removed it": {cached: stale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{}
			if tc.written != nil {
				r.noteRemoved(&releaseScope{before: stale, release: tc.written})
			}
			if got := r.isRemoved(tc.cached); got != tc.want {
				t.Errorf("the release counts as removed: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestWaitingUninstallationsAreLimited checks that uninstallations that wait for their objects take a third of the
// slots at most. Late uninstallations that do not wait for their objects must use a free slot.
func TestWaitingUninstallationsAreLimited(t *testing.T) {
	t.Parallel()
	now := controllertest.LifeNow
	r := &Reconciler{slots: newActionSlots(8, 0, &async.Waker{}), now: func() time.Time { return now }}
	take := func(cluster string, hold string) (done func(), ok, waits bool) {
		options := &model.UninstallOptions{}
		release := controllertest.HoldingRelease(20 * time.Minute)
		release.Name = cluster
		scope := &releaseScope{release: release, cluster: controllertest.DeletingCluster(hold, true)}
		done, _ = r.uninstallSlot(scope, options, cluster, "h")
		return done, done != nil, options.Wait
	}
	first, ok, waits := take("a", controllertest.HeldSince)
	if _, second, _ := take("b", controllertest.HeldSince); !ok || !waits || !second {
		t.Fatal("two of eight workers may wait for objects")
	}
	if _, ok, _ := take("c", controllertest.HeldSince); ok {
		t.Error("a third worker waits, too")
	}
	other, ok, waits := take("d", "")
	if !ok || waits {
		t.Error("an uninstallation that does not wait for objects is limited, too")
	}
	now = controllertest.LifeNow.Add(10 * time.Minute) // 15 of 20 minutes are over.
	if _, ok, waits := take("c", controllertest.HeldSince); !ok || waits {
		t.Error("the release is not uninstalled at all")
	}
	first()
	if _, ok, waits := take("e", controllertest.HeldSince); !ok || !waits {
		t.Error("the slot is not released")
	}
	for _, cluster := range []string{"f", "g"} {
		if _, ok, _ := take(cluster, controllertest.HeldSince); ok {
			t.Fatal("the HelmOp has more than its share of the slots")
		}
	}
	other()
	uninstalled := 0
	for i := range 10 {
		if _, ok, waits := take([]string{"f", "g"}[i%2], controllertest.HeldSince); ok && !waits {
			uninstalled++
		}
	}
	if uninstalled != 1 {
		t.Errorf("%d of two late releases got the only free slot", uninstalled)
	}
}

// TestWaitingReleaseIsOrphaned deletes a HelmOp with limits: with the propagation policy Foreground, and then with
// Orphan. Releases that wait for their admission must be orphaned, before and after garbage collection has removed
// their owner references.
func TestWaitingReleaseIsOrphaned(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		finalizers          []string
		isOwnerless, orphan bool
	}{
		"Foreground":              {finalizers: []string{metav1.FinalizerDeleteDependents}},
		"Orphan":                  {finalizers: []string{metav1.FinalizerOrphanDependents}, orphan: true},
		"Orphan, and no owner":    {finalizers: []string{metav1.FinalizerOrphanDependents}, isOwnerless: true, orphan: true},
		"after Orphan, no owner":  {isOwnerless: true, orphan: true},
		"no policy, and an owner": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.HelmOp.Spec.Rollout = &addonsv1.Rollout{MaxUnavailable: new(intstr.FromInt32(1))}
			b.HelmOp.DeletionTimestamp = new(metav1.NewTime(controllertest.Noon))
			b.HelmOp.Finalizers = append(tc.finalizers, addonsv1.HelmOpFinalizer)
			b.Release.Name = apiutil.ChildName(b.HelmOp.Name, apiutil.ClusterTitle(b.Release))
			b.Release.DeletionTimestamp = new(metav1.NewTime(controllertest.Noon))
			b.Release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
			if tc.isOwnerless {
				b.Release.OwnerReferences = nil
			}
			r, recorder := benchReconciler(b), events.NewFakeRecorder(2)
			r.recorder, r.budgets = recorder, report.NewEventBudgets(time.Now)
			scope, err := r.gather(t.Context(), r.client, b.Release)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.reconcileDelete(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			if isRemoved := len(b.Release.Finalizers) == 0; isRemoved != tc.orphan || len(recorder.Events) > 0 != tc.orphan {
				t.Fatalf("the HelmOpRelease is removed: %t, with %d Events", isRemoved, len(recorder.Events))
			}
			if !tc.orphan {
				return
			}
			if event := <-recorder.Events; !strings.Contains(event, orphanedByOwner) {
				t.Errorf("the Event is %q", event)
			}
		})
	}
}

// TestReleaseWithoutOwnerWaits checks that a release whose HelmOp does not exist stays installed, however long the
// HelmOp is missing. It is uninstalled if the HelmOp permitted this before, or if a user permits it.
func TestReleaseWithoutOwnerWaits(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	owner := metav1.GetControllerOf(b.Release)
	b.HelmOp = nil
	b.Release.Namespace, b.Release.Finalizers = "platform", []string{addonsv1.HelmOpReleaseFinalizer}
	b.Release.Spec.ClusterRef.Namespace, b.Cluster.Namespace = "", "platform"
	b.Release.DeletionTimestamp = new(metav1.NewTime(controllertest.Noon))
	now, connections := controllertest.Noon, &forgetting{}
	r := benchReconciler(b)
	r.recorder, r.now, r.budgets = events.NewFakeRecorder(10), func() time.Time { return now },
		report.NewEventBudgets(time.Now)
	r.watcher, r.kubeconfigs = forgettingWatcher{forgetting: connections}, controllertest.StoreOf(t)
	r.clusters = linkMadeMeanwhile{err: errors.New("no connection"), failures: 1}
	for _, tc := range []struct {
		after    time.Duration
		admitted string
		want     string
	}{
		{want: addonsv1.OwnerNotFoundReason},
		{after: 24 * time.Hour, want: addonsv1.OwnerNotFoundReason},
		{after: 24 * time.Hour, admitted: "another", want: addonsv1.OwnerNotFoundReason},
		{after: 24 * time.Hour, admitted: string(owner.UID), want: addonsv1.ClusterUnreachableReason},
		{admitted: string(owner.UID), want: addonsv1.ClusterUnreachableReason},
	} {
		now, connections.disconnected = controllertest.Noon.Add(tc.after), nil
		b.Release.Annotations = map[string]string{addonsv1.DeletionAdmittedAnnotation: tc.admitted}
		result, err := r.reconcileDelete(t.Context(), &releaseScope{release: b.Release, before: b.Release.DeepCopy(),
			cluster: b.Cluster})
		waits := tc.want == addonsv1.OwnerNotFoundReason
		if waits && result.RequeueAfter != 0 {
			t.Errorf("%+v: the next check is after %s, not after an event", tc, result.RequeueAfter)
		}
		ready := conditions.Get(b.Release, addonsv1.ReadyCondition)
		if err != nil || ready.Reason != tc.want {
			t.Errorf("%+v: Ready is %+v, error %v", tc, ready, err)
		}
		command := fmt.Sprintf("kubectl -n platform annotate %s %s --overwrite %s=%s", addonsv1.HelmOpReleaseResource,
			b.Release.Name, addonsv1.DeletionAdmittedAnnotation, owner.UID)
		if waits && !strings.Contains(ready.Message, command) {
			t.Errorf("no %q in %q", command, ready.Message)
		}
		if tried := len(connections.disconnected) > 0; tried == waits {
			t.Errorf("%+v: a connection was tried: %t", tc, tried)
		}
		if len(b.Release.Finalizers) == 0 {
			t.Errorf("%+v: the HelmOpRelease is gone before the release", tc)
		}
		// The watches show the versions of the objects until the uninstallation begins.
		if len(connections.releases) > 0 {
			t.Errorf("%+v: the watches ended", tc)
		}
	}
}

// observedRecords is an engine that finds the same records of each release.
type observedRecords struct {
	Engine
	records []model.Record
}

func (e *observedRecords) Observe(context.Context, model.Target, string, string) (model.Observation, error) {
	return model.Observation{Records: e.records}, nil
}

// TestWaitingUninstallationHasATime checks that an uninstallation that waits for another process names the process, and
// the time when HelmOp uninstalls the release at the latest.
func TestWaitingUninstallationHasATime(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Release.UID = "uid-1"
	r, deadline := benchReconciler(b), controllertest.Noon.Add(time.Minute)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid-8"}}
	if err := r.client.Create(t.Context(), system); err != nil {
		t.Fatal(err)
	}
	desired, _ := releasespec.DesiredOf(b.Release)
	r.now, r.reads = func() time.Time { return controllertest.Noon }, recordreads.New(1,
		clusterlink.New(clusterlink.Options{}))
	r.slots, r.clusters = newActionSlots(1, 0, &async.Waker{}), linkMadeMeanwhile{}
	r.engine = &observedRecords{records: []model.Record{{Revision: 3, LabelledRevision: 3, Status: "pending-upgrade",
		Owner: desired.Owner, UID: "uid-2", Deadline: deadline, ChangedAt: controllertest.Noon}}}
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		scope := &releaseScope{release: b.Release, cluster: b.Cluster, helmOp: b.HelmOp}
		result, err := r.uninstall(t.Context(), scope, model.Target{Key: "team/one"})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(result.RequeueAfter).To(gomega.Equal(decide.OtherProcessRetry))
		ready := conditions.Get(b.Release, addonsv1.ReadyCondition)
		g.Expect(ready.Reason).To(gomega.Equal(addonsv1.ReleasePendingReason))
		g.Expect(ready.Message).To(gomega.And(gomega.ContainSubstring(desired.Owner),
			gomega.ContainSubstring(deadline.Format(time.RFC3339))))
		g.Expect(b.Release.Status.NextTryAt.Time).To(gomega.BeTemporally("==", deadline))
	}).WithTimeout(time.Minute).Should(gomega.Succeed())
}

// TestUnknownIntentIsReported deletes a release whose HelmOp has an invalid selector. The release must say why it
// waits, and the controller must try again with growing delays instead of returning an error.
func TestUnknownIntentIsReported(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.HelmOp.Spec.ClusterSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like"}}}
	r := benchReconciler(b)
	r.now = func() time.Time { return controllertest.Noon }
	p := &releasePass{releaseScope: &releaseScope{release: b.Release, cluster: b.Cluster, helmOp: b.HelmOp}}
	for _, about := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		end, err := r.checkIntent(t.Context(), p)
		if err != nil || end == nil || (end.RequeueAfter-about).Abs() > about/4 {
			t.Fatalf("got %+v, %v, want a pass after %s", end, err, about)
		}
	}
	ready := conditions.Get(b.Release, addonsv1.ReadyCondition)
	if ready.Reason != addonsv1.DeletingReason || !strings.Contains(ready.Message, "The uninstallation waits") ||
		!strings.Contains(ready.Message, "Like") || b.Release.Status.NextTryAt.IsZero() {
		t.Errorf("%+v, the next try is at %s", ready, b.Release.Status.NextTryAt)
	}
}

// seenVersions is an engine that stores the object versions that it gets.
type seenVersions struct {
	Engine
	release  string
	versions map[inventory.Ref]model.ObjectVersion
}

func (e *seenVersions) Saw(cluster, namespace, name string, versions map[inventory.Ref]model.ObjectVersion) {
	e.release, e.versions = cluster+": "+namespace+"/"+name, versions
}

// shownObjects is a watcher that shows the same objects for each release.
type shownObjects struct {
	Watcher
	snapshot objectwatch.Snapshot
}

func (w *shownObjects) Look(types.NamespacedName) (objectwatch.Snapshot, bool) {
	return w.snapshot, true
}

// TestWatchedVersionsAreKept checks that the engine gets the versions of all objects that the uninstallation may delete
// unread. It must not get the versions of other objects.
func TestWatchedVersionsAreKept(t *testing.T) {
	t.Parallel()
	release := controllertest.HoldingRelease(time.Minute)
	release.Spec.Release = addonsv1.ReleaseIdentity{Namespace: "ns", Name: "r"}
	own := objectwatch.State{Known: true, Exists: true, UID: "u", ResourceVersion: 7, Generation: 2,
		DeletedWith: "ns/r"}
	snapshot := objectwatch.Snapshot{Objects: map[inventory.Ref]objectwatch.State{}}
	for name, change := range map[string]func(*objectwatch.State){
		"own":     func(*objectwatch.State) {},
		"unknown": func(s *objectwatch.State) { s.Known = false },
		"deleted": func(s *objectwatch.State) { s.Exists = false },
		"other":   func(s *objectwatch.State) { s.DeletedWith = "ns/other" },
		"kept":    func(s *objectwatch.State) { s.DeletedWith = "" },
		"lost":    func(s *objectwatch.State) { s.WatchError = &objectwatch.WatchError{Err: objectwatch.ErrForbidden} },
	} {
		state := own
		change(&state)
		snapshot.Objects[inventory.Ref{Kind: "Service", Namespace: "ns", Name: name}] = state
	}
	engine := &seenVersions{}
	r := &Reconciler{engine: engine, watcher: &shownObjects{snapshot: snapshot}}
	r.keepVersions(release)
	want := map[inventory.Ref]model.ObjectVersion{{Kind: "Service", Namespace: "ns", Name: "own"}: {UID: "u", Number: 7,
		Generation: 2}}
	if !maps.Equal(engine.versions, want) || engine.release != apiutil.ClusterKey(release).String()+": ns/r" {
		t.Errorf("%s has %v, want %v", engine.release, engine.versions, want)
	}
}
