// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestMovedObjectsPauseRelease checks that a release with moved objects is paused, with the cause and an Event. This
// must be true only in the management cluster.
func TestMovedObjectsPauseRelease(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 0, 0)
	b.r.watcher = &movedWatcher{}
	b.r.client = controllertest.DefinitionsClient(t, map[schema.GroupKind][]string{
		{Group: clusterv1.GroupVersion.Group, Kind: clusterv1.ClusterKind}: {clusterctlv1.ClusterctlLabel}})
	cluster := inventory.Ref{Group: clusterv1.GroupVersion.Group, Version: "v1beta2", Kind: "Cluster", Namespace: "z",
		Name: "one"}
	secret := inventory.Ref{Version: "v1", Kind: "Secret", Namespace: "a", Name: "kept"}
	b.p.snapshot.Objects[cluster], b.p.snapshot.Objects[secret] = objectwatch.State{Known: true},
		objectwatch.State{Known: true}
	expect := func(want bool, what string) {
		t.Helper()
		if stops, err := b.r.stopsForMove(t.Context(), b.p); err != nil || stops != want ||
			!want && len(b.p.release.Annotations) != 0 {
			t.Fatalf("%s: %t, %v, %v", what, stops, err, b.p.release.Annotations)
		}
	}
	mark := func(marked map[inventory.Ref]objectwatch.MoveMark) {
		for ref, mark := range marked {
			b.p.snapshot.Objects[ref] = objectwatch.State{Known: true, MoveMark: mark}
		}
	}
	expect(false, "missing objects")
	mark(map[inventory.Ref]objectwatch.MoveMark{cluster: objectwatch.Marked, secret: objectwatch.MarkedMovable})
	expect(false, "an annotation in a workload cluster")
	b.p.release.Spec.ClusterRef.Kind = addonsv1.ClusterKindManagementCluster
	mark(map[inventory.Ref]objectwatch.MoveMark{cluster: objectwatch.Unmarked, secret: objectwatch.Marked})
	expect(false, "an annotation on a Secret that clusterctl does not move")
	mark(map[inventory.Ref]objectwatch.MoveMark{cluster: objectwatch.Marked, secret: objectwatch.MarkedMovable})
	expect(true, "moved objects")
	why := "clusterctl move moved Cluster z/one, Secret a/kept to another management cluster"
	if got := b.p.release.Annotations[clusterv1.PausedAnnotation]; got != why {
		t.Errorf("annotated with %q", got)
	}
	paused := conditions.Get(b.p.release, addonsv1.PausedCondition)
	if paused == nil || paused.Status != metav1.ConditionTrue || !strings.Contains(paused.Message, why) ||
		apiutil.PauseReason(b.p.cluster, b.p.helmOp, b.p.release) != paused.Message {
		t.Errorf("%+v", paused)
	}
	if recorded := len(b.recorder.Events); recorded != 2 {
		t.Errorf("%d Events, want one of the release and one of the HelmOp", recorded)
	}
	if event := <-b.recorder.Events; !strings.Contains(event, addonsv1.ObjectsMovedEvent) ||
		!strings.Contains(event, why) {
		t.Errorf("the Event is %q", event)
	}
}

// movedWatcher watches no objects.
type movedWatcher struct{ Watcher }

func (*movedWatcher) Forget(types.NamespacedName) {}

// TestMissingObjectIsRestoredAfterDeletionIsSeen checks that a missing object is created again only after the watch
// shows its deletion.
func TestMissingObjectIsRestoredAfterDeletionIsSeen(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 2, 0)
	b.pass()
	b.missing = "c0"
	b.edit("c0")
	b.pass()
	if b.posts != 0 {
		t.Fatal("created again before the watch showed the deletion")
	}
	b.want(metav1.ConditionTrue, addonsv1.DriftDetectedReason, "c0 is missing")
	b.vanish("c0")
	b.pass()
	if b.posts != 1 {
		t.Errorf("created again %d times", b.posts)
	}
}

// TestMovedReleaseWaitsForCluster checks what happens to a release while its Cluster does not exist. If it comes from
// another management cluster, it waits, also under deletion: clusterctl move may create the Cluster later. The wait
// ends with the HelmOp, or with the annotation orphan. It ends without a request to the workload cluster.
func TestMovedReleaseWaitsForCluster(t *testing.T) {
	t.Parallel()
	const own = "system"
	now := metav1.Now()
	orphan := func(b *controllertest.ReleaseBench) { b.Release.Annotations[addonsv1.OrphanAnnotation] = "true" }
	for name, tc := range map[string]struct {
		managers string
		change   func(b *controllertest.ReleaseBench)
		waits    bool
	}{
		"moved": {managers: "former", waits: true},
		"moved, with the deletion policy Orphan": {managers: "former", waits: true,
			change: func(b *controllertest.ReleaseBench) { b.HelmOp.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan }},
		"moved back before the end of the takeover": {managers: "former," + own, waits: true},
		"moved, and the takeover has begun":         {managers: own + ",former"},
		"moved, and the Cluster was deleted": {managers: "former",
			change: func(b *controllertest.ReleaseBench) { b.Release.Status.ClusterUID = "uid" }},
		"moved, but not wanted": {managers: "former", change: orphan},
		"not moved":             {managers: own},
	} {
		for _, isDeleting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deleting: %t", name, isDeleting), func(t *testing.T) {
				t.Parallel()
				b := deletedAfterMove(t, addonsv1.DeletionPolicyUninstall)
				b.Release.Annotations[addonsv1.ManagementClusterAnnotation] = tc.managers
				if tc.change != nil {
					tc.change(b)
				}
				r := disconnectedReconciler(b)
				pass := func(helmOp *addonsv1.HelmOp) {
					t.Helper()
					reconcile := r.reconcileDelete
					if !isDeleting {
						b.Release.DeletionTimestamp, reconcile = nil, r.reconcileNormal
					}
					if _, err := reconcile(t.Context(), &releaseScope{release: b.Release, before: b.Release.DeepCopy(),
						helmOp: helmOp}); err != nil {
						t.Fatal(err)
					}
				}
				pass(b.HelmOp)
				command := "kubectl -n platform annotate " + addonsv1.HelmOpReleaseResource + " child " +
					addonsv1.OrphanAnnotation + "=true"
				ready := conditions.Get(b.Release, addonsv1.ReadyCondition)
				if says := ready != nil && ready.Reason == addonsv1.ClusterNotFoundReason &&
					strings.Contains(ready.Message, command); says != tc.waits {
					t.Errorf("Ready is %+v", ready)
				}
				if isKept := len(b.Release.Finalizers) > 0; isKept != (tc.waits || !isDeleting) {
					t.Fatalf("the HelmOpRelease stays: %t", isKept)
				}
				if !tc.waits || !isDeleting {
					return
				}
				for end, helmOp := range map[string]*addonsv1.HelmOp{"without the HelmOp": nil,
					"with the HelmOp under deletion": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}} {
					if pass(helmOp); len(b.Release.Finalizers) > 0 {
						t.Errorf("%s, the HelmOpRelease stays", end)
					}
					b.Release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
				}
				orphan(b)
				if pass(b.HelmOp); len(b.Release.Finalizers) > 0 {
					t.Error("with the annotation orphan, the HelmOpRelease stays")
				}
			})
		}
	}
}

// TestAwaitedClusterArrives creates the Cluster for which a moved release has waited. It is paused or of another shard.
func TestAwaitedClusterArrives(t *testing.T) {
	t.Parallel()
	b := deletedAfterMove(t, addonsv1.DeletionPolicyUninstall)
	b.Release.DeletionTimestamp = nil
	r := disconnectedReconciler(b)
	object := &unstructured.Unstructured{}
	object.SetUID("new")
	cluster := &clusterv1.Cluster{}
	cluster.Spec.Paused = new(true)
	pass := &releasePass{releaseScope: &releaseScope{release: b.Release, before: b.Release.DeepCopy(), helmOp: b.HelmOp,
		cluster: cluster, object: object, otherShard: "the Cluster has another shard"}}
	report.NotConnecting(b.Release, addonsv1.ClusterNotFoundReason, "the Cluster does not exist yet")
	if result, err := r.checkPause(t.Context(), pass); err != nil || result == nil {
		t.Fatalf("a pause does not end the pass: %v, %v", result, err)
	}
	if ready := conditions.Get(b.Release, addonsv1.ReadyCondition); ready != nil {
		t.Errorf("the Cluster exists, but Ready is %+v", ready)
	}
	if r.resetIfRecreated(t.Context(), pass.releaseScope) || b.Release.Status.ClusterUID != "new" {
		t.Errorf("the UID of the Cluster is %q", b.Release.Status.ClusterUID)
	}
}
