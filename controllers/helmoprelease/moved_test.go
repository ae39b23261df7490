// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
