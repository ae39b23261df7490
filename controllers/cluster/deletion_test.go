// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// lifeReconciler is a reconciler of Clusters over copies of these objects: parallel tests share some, and the client
// writes into them.
func lifeReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().
		WithIndex(&addonsv1.HelmOpRelease{}, apiutil.ClusterIndex, apiutil.ClustersOfRelease).
		WithObjects(append(controllertest.Copies(objects...), controllertest.HoldingHelmOp())...)
	builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			err := c.Patch(ctx, object, patch, options...)
			if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
				// An API server responds like this if a JSON patch cannot be applied.
				return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{},
					object.GetName(), err.Error(), 0, false)
			}
			return err
		},
	})
	c := builder.Build()
	return &Reconciler{
		client: c, live: c, objects: clusterview.NewReader(c, c), recorder: events.NewFakeRecorder(100),
		forgetReads: func(client.ObjectKey) {}, now: func() time.Time { return controllertest.LifeNow },
		link: func(client.ObjectKey) clusterlink.State { return clusterlink.State{} },
	}
}

// pass makes one pass over the Cluster, and returns the Cluster after the pass.
func (r *Reconciler) pass(t *testing.T) (*clusterv1.Cluster, ctrl.Result) {
	t.Helper()
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{}
	if err := r.client.Get(t.Context(), key, cluster); err != nil {
		t.Fatal(err)
	}
	return cluster, result
}

// TestPauseOfUserStopsDeletionHold checks that the deletion of a Cluster does not continue while a user pauses the
// Cluster, and that no release is uninstalled meanwhile. When the pause ends, the full time of the hold begins.
func TestPauseOfUserStopsDeletionHold(t *testing.T) {
	t.Parallel()
	release := controllertest.HoldingRelease(10 * time.Minute)
	r := lifeReconciler(t, withAnnotation(controllertest.DeletingCluster(controllertest.HeldSince, true),
		clusterv1.PausedAnnotation), release)
	for range 2 {
		cluster, _ := r.pass(t)
		if !apiutil.IsClusterPaused(cluster) || !ptr.Deref(cluster.Spec.Paused, false) || apiutil.HoldOf(cluster).IsOn() {
			t.Fatalf("annotations %v, paused %v", cluster.Annotations, cluster.Spec.Paused)
		}
		r.now = func() time.Time { return controllertest.LifeNow.Add(24 * time.Hour) }
	}
	stored := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(release), stored); err != nil ||
		!stored.DeletionTimestamp.IsZero() {
		t.Fatalf("the release is deleted: %v", err)
	}
	cluster, _ := r.pass(t)
	delete(cluster.Annotations, clusterv1.PausedAnnotation)
	if err := r.client.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if cluster, _ = r.pass(t); !apiutil.HoldOf(cluster).IsOn() || apiutil.IsClusterPaused(cluster) {
		t.Fatalf("the hold does not begin again: %v", cluster.Annotations)
	}
	if _, result := r.pass(t); result.RequeueAfter != 10*time.Minute {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
	controllertest.RemoveReleaseFinalizer(t, r.client, release)
	if cluster, _ = r.pass(t); !apiutil.HoldOf(cluster).Over || cluster.Spec.Paused != nil {
		t.Errorf("still held: %v %v", cluster.Annotations, cluster.Spec.Paused)
	}
}

// withPauseBy returns a Cluster whose deletion is held, with an entry of another field manager.
func withPauseBy(operation metav1.ManagedFieldsOperationType, fields string) *clusterv1.Cluster {
	cluster := controllertest.DeletingCluster(controllertest.HeldSince, true)
	cluster.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone", Operation: operation,
		APIVersion: clusterv1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}}
	return cluster
}

// TestPauseApplier checks that a field manager that has applied the end of a pause does not count.
func TestPauseApplier(t *testing.T) {
	t.Parallel()
	for paused, want := range map[bool]string{true: "someone", false: ""} {
		cluster := withPauseBy(metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:paused":{}}}`)
		cluster.Spec.Paused = &paused
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
		if err != nil {
			t.Fatal(err)
		}
		if got := pauseApplier(&unstructured.Unstructured{Object: content}); got != want {
			t.Errorf("paused %t: %q, want %q", paused, got, want)
		}
	}
}

func TestDeletionHold(t *testing.T) {
	t.Parallel()
	moved := func(hold string, paused bool) *clusterv1.Cluster {
		return withAnnotation(controllertest.DeletingCluster(hold, paused), clusterctlv1.DeleteForMoveAnnotation)
	}
	movedInHold := moved(controllertest.HeldSince+" unpaused", true)
	warning := "Warning " + addonsv1.ClusterBeingMovedEvent
	withoutAsking := controllertest.HoldingRelease(time.Minute)
	withoutAsking.Spec.BeforeClusterDelete = nil
	tests := map[string]struct {
		cluster *clusterv1.Cluster
		release *addonsv1.HelmOpRelease
		hold    string
		paused  bool
		event   string
	}{
		"no beforeClusterDelete": {cluster: controllertest.DeletingCluster("", false), release: withoutAsking},
		"paused by a user": {cluster: controllertest.DeletingCluster("", true),
			release: controllertest.HoldingRelease(time.Minute), paused: true},
		"being moved": {cluster: moved("", false), release: controllertest.HoldingRelease(time.Minute), event: warning},
		"being moved by clusterctl": {cluster: moved("", true), release: controllertest.HoldingRelease(time.Minute),
			paused: true, event: warning},
		"being moved by clusterctl since a hold without pause": {cluster: movedInHold, release: withoutAsking,
			hold: controllertest.HeldSince + " unpaused", paused: true, event: warning},
		"being moved, held": {cluster: moved(controllertest.HeldSince, true),
			release: controllertest.HoldingRelease(time.Hour), hold: controllertest.HeldSince, paused: true,
			event: warning},
		"being moved, timed out": {cluster: moved(controllertest.HeldSince, true),
			release: controllertest.HoldingRelease(time.Minute), hold: apiutil.DeletionHoldOver, event: warning},
		"being moved, no release holds": {cluster: moved(controllertest.HeldSince, true), release: withoutAsking,
			hold: apiutil.DeletionHoldOver, event: warning},
		"being moved, malformed annotation": {cluster: moved("yes", true),
			release: controllertest.HoldingRelease(time.Hour), hold: "yes", paused: true, event: warning},
		"timed out": {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
			release: controllertest.HoldingRelease(time.Minute), hold: apiutil.DeletionHoldOver,
			event: "Warning " + addonsv1.ClusterDeletionReleasedEvent},
		"paused by an apply during the hold": {
			cluster: withPauseBy(metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:paused":{}}}`),
			release: withoutAsking, hold: apiutil.DeletionHoldOver, paused: true,
			event: "Normal " + addonsv1.ClusterDeletionReleasedEvent + " No release holds the deletion of the Cluster any " +
				`longer: the deletion continues. But the Cluster stays paused, because the field manager "someone" has ` +
				"applied spec.paused: set spec.paused to false"},
		"paused by an apply, timed out": {
			cluster: withPauseBy(metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:paused":{}}}`),
			release: controllertest.HoldingRelease(time.Minute), hold: apiutil.DeletionHoldOver, paused: true,
			event: "Warning " + addonsv1.ClusterDeletionReleasedEvent},
		"another field applied": {
			cluster: withPauseBy(metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:topology":{"f:paused":{}}}}`),
			release: withoutAsking, hold: apiutil.DeletionHoldOver, event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"paused by HelmOp only": {
			cluster: withPauseBy(metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:paused":{}}}`),
			release: withoutAsking, hold: apiutil.DeletionHoldOver, event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"hold is over": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldOver, false),
			release: controllertest.HoldingRelease(time.Hour), hold: apiutil.DeletionHoldOver},
		"hold continues after a restart": {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
			release: controllertest.HoldingRelease(time.Hour), hold: controllertest.HeldSince, paused: true},
		"another program ends the pause": {cluster: controllertest.DeletingCluster(controllertest.HeldSince, false),
			release: controllertest.HoldingRelease(time.Hour), hold: controllertest.HeldSince,
			event: "Warning " + addonsv1.ClusterDeletionHeldEvent + " Another program ended the pause"},
		"beforeClusterDelete removed during the hold": {
			cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
			release: withoutAsking, hold: apiutil.DeletionHoldOver, event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"malformed annotation begins now": {cluster: controllertest.DeletingCluster("yes", true),
			release: controllertest.HoldingRelease(time.Hour), hold: controllertest.LifeNow.Format(time.RFC3339), paused: true,
			event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"malformed annotation, not paused": {cluster: controllertest.DeletingCluster("yes", false), release: withoutAsking,
			hold: "yes"},
		"user pauses during the hold": {cluster: withAnnotation(controllertest.DeletingCluster(controllertest.HeldSince,
			true), clusterv1.PausedAnnotation), release: controllertest.HoldingRelease(time.Minute),
			hold: apiutil.DeletionHoldPaused, paused: true, event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"pause of the user lasts": {cluster: withAnnotation(controllertest.DeletingCluster(apiutil.DeletionHoldPaused,
			true), clusterv1.PausedAnnotation), release: controllertest.HoldingRelease(time.Minute),
			hold: apiutil.DeletionHoldPaused, paused: true},
		"pause of the user ends": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldPaused, true),
			release: controllertest.HoldingRelease(time.Minute), hold: controllertest.LifeNow.Format(time.RFC3339), paused: true,
			event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"user ends both pauses": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldPaused, false),
			release: controllertest.HoldingRelease(time.Minute), hold: controllertest.LifeNow.Format(time.RFC3339), paused: true,
			event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"paused by annotation": {cluster: withAnnotation(controllertest.DeletingCluster("", false),
			clusterv1.PausedAnnotation), release: controllertest.HoldingRelease(time.Hour)},
		"release of another namespace": {cluster: controllertest.DeletingCluster("", false),
			release: controllertest.OfNamespace("tenant", controllertest.HoldingRelease(24*time.Hour))},
		"release of an unknown HelmOp": {cluster: controllertest.DeletingCluster("", false),
			release: ofHelmOp("made-up", controllertest.HoldingRelease(24*time.Hour))},
		"release without an owner": {cluster: controllertest.DeletingCluster("", false),
			release: ofHelmOp("", controllertest.HoldingRelease(24*time.Hour))},
		"release of another Cluster": {cluster: controllertest.DeletingCluster("", false),
			release: ofAnotherCluster(controllertest.HoldingRelease(time.Hour))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lifeReconciler(t, tc.cluster, tc.release)
			cluster, _ := r.pass(t)
			if got := cluster.Annotations[addonsv1.DeletionHoldAnnotation]; got != tc.hold ||
				ptr.Deref(cluster.Spec.Paused, false) != tc.paused {
				t.Errorf("hold %q, paused %t", got, ptr.Deref(cluster.Spec.Paused, false))
			}
			expectEvent(t, r, tc.event)
		})
	}
}

// TestRestoredHoldEnds restores Clusters from a backup that was made while their deletion was held.
func TestRestoredHoldEnds(t *testing.T) {
	t.Parallel()
	restored := func(hold string, ago time.Duration) *clusterv1.Cluster {
		cluster := controllertest.DeletingCluster(hold, true)
		cluster.DeletionTimestamp, cluster.CreationTimestamp = nil, metav1.NewTime(controllertest.LifeNow.Add(-ago))
		return cluster
	}
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		hold    string
		paused  bool
		event   string
	}{
		"held": {cluster: restored(controllertest.HeldSince, restoredHoldKept),
			event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"held, may be a move": {cluster: restored(controllertest.HeldSince, restoredHoldKept-time.Second),
			hold: controllertest.HeldSince, paused: true},
		"paused by a user": {cluster: restored("", restoredHoldKept), paused: true},
		"malformed annotation": {cluster: restored("yes", restoredHoldKept),
			event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"held, with the annotation of a move": {cluster: withAnnotation(
			restored(controllertest.HeldSince, restoredHoldKept), clusterctlv1.DeleteForMoveAnnotation),
			event: "Warning " + addonsv1.ClusterBeingMovedEvent},
		"suspended by a user": {cluster: restored(apiutil.DeletionHoldPaused, restoredHoldKept),
			event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"over, and paused by a user": {cluster: restored(apiutil.DeletionHoldOver, restoredHoldKept),
			hold: apiutil.DeletionHoldOver, paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lifeReconciler(t, tc.cluster, controllertest.HoldingRelease(time.Hour))
			cluster, _ := r.pass(t)
			if got := cluster.Annotations[addonsv1.DeletionHoldAnnotation]; got != tc.hold ||
				ptr.Deref(cluster.Spec.Paused, false) != tc.paused {
				t.Errorf("hold %q, paused %t", got, ptr.Deref(cluster.Spec.Paused, false))
			}
			expectEvent(t, r, tc.event)
		})
	}
}

// TestMoveIsWarnedOfOnce checks that the Warning about the annotation delete-for-move is recorded once, and again if
// the annotation returns. A Cluster without releases and holds, as in a real move, has no Warning. No release is
// uninstalled.
func TestMoveIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	marked := withAnnotation(controllertest.DeletingCluster(controllertest.HeldSince, true),
		clusterctlv1.DeleteForMoveAnnotation)
	release := controllertest.HoldingRelease(time.Hour)
	r := lifeReconciler(t, marked, release)
	for _, want := range []string{"Warning " + addonsv1.ClusterBeingMovedEvent + " HelmOp begins no hold", ""} {
		if _, result := r.pass(t); result.RequeueAfter == 0 {
			t.Error("the end of the hold is not awaited")
		}
		expectEvent(t, r, want)
	}
	stored := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(release), stored); err != nil ||
		!stored.DeletionTimestamp.IsZero() {
		t.Errorf("the release is deleted: %v", err)
	}
	annotate := func(change func(annotations map[string]string)) {
		cluster := &clusterv1.Cluster{}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(marked), cluster); err != nil {
			t.Fatal(err)
		}
		change(cluster.Annotations)
		if err := r.client.Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		r.pass(t)
	}
	annotate(func(annotations map[string]string) { delete(annotations, clusterctlv1.DeleteForMoveAnnotation) })
	expectEvent(t, r, "")
	annotate(func(annotations map[string]string) { annotations[clusterctlv1.DeleteForMoveAnnotation] = "" })
	expectEvent(t, r, "Warning "+addonsv1.ClusterBeingMovedEvent)

	marked = withAnnotation(controllertest.DeletingCluster("", true), clusterctlv1.DeleteForMoveAnnotation)
	r = lifeReconciler(t, marked)
	r.pass(t)
	expectEvent(t, r, "")
}

func withAnnotation(cluster *clusterv1.Cluster, key string) *clusterv1.Cluster {
	cluster.Annotations[key] = ""
	return cluster
}

// ofHelmOp changes the UID of the owner of a release; without a UID, it removes the owner.
func ofHelmOp(uid types.UID, release *addonsv1.HelmOpRelease) *addonsv1.HelmOpRelease {
	release.OwnerReferences[0].UID = uid
	if uid == "" {
		release.OwnerReferences = nil
	}
	return release
}

func ofAnotherCluster(release *addonsv1.HelmOpRelease) *addonsv1.HelmOpRelease {
	release.Spec.ClusterRef.Name = "d"
	return release
}

// expectEvent fails unless the first Event has a prefix; an empty prefix expects no Event.
func expectEvent(t *testing.T, r *Reconciler, begin string) {
	t.Helper()
	got := ""
	select {
	case got = <-r.recorder.(*events.FakeRecorder).Events:
	default:
	}
	if (got == "") != (begin == "") || !strings.HasPrefix(got, begin) {
		t.Errorf("event %q, want %q", got, begin)
	}
}

// TestRejectedCredentialsDuringHold has a provider whose tokens are valid for minutes: the token expires while HelmOp
// pauses the Cluster. A Warning must name the cause and what to do, long before the hold ends, and the end of the hold
// must name the cause. The user may also stop the deletion, and let it continue when the token has expired.
func TestRejectedCredentialsDuringHold(t *testing.T) {
	t.Parallel()
	warning := "Warning " + addonsv1.ClusterDeletionHeldEvent + " HelmOp cannot uninstall the releases before the " +
		"deletion of the Cluster: " + string(clusterlink.CauseCredentials)
	for name, tc := range map[string]struct {
		hold   string
		paused bool
		link   clusterlink.State
		want   string
	}{
		"token expired": {hold: controllertest.HeldSince, paused: true,
			link: clusterlink.State{Failures: 2, Cause: clusterlink.CauseCredentials}, want: warning},
		"one probe failed": {hold: controllertest.HeldSince, paused: true,
			link: clusterlink.State{Failures: 1, Cause: clusterlink.CauseCredentials}},
		"another cause": {hold: controllertest.HeldSince, paused: true,
			link: clusterlink.State{Failures: 2, Cause: clusterlink.CauseName}},
		"not paused": {hold: controllertest.HeldSince + " unpaused",
			link: clusterlink.State{Failures: 2, Cause: clusterlink.CauseCredentials}},
	} {
		cluster := controllertest.DeletingCluster(tc.hold, tc.paused)
		cluster.Spec.Topology.ClassRef.Name = "class"
		r := lifeReconciler(t, cluster, controllertest.HoldingRelease(time.Hour))
		r.link = func(client.ObjectKey) clusterlink.State { return tc.link }
		r.extension = !tc.paused
		if cluster, _ = r.pass(t); !apiutil.HoldOf(cluster).IsOn() {
			t.Errorf("%s: the hold has ended", name)
		}
		t.Run(name, func(t *testing.T) { expectEvent(t, r, tc.want) })
	}
	r := lifeReconciler(t, controllertest.DeletingCluster(apiutil.DeletionHoldPaused, true),
		controllertest.HoldingRelease(10*time.Minute))
	r.link = func(client.ObjectKey) clusterlink.State {
		return clusterlink.State{Failures: 20, Cause: clusterlink.CauseCredentials}
	}
	r.pass(t)
	expectEvent(t, r, "Normal "+addonsv1.ClusterDeletionHeldEvent)
	r.pass(t)
	expectEvent(t, r, warning)
	r.now = func() time.Time { return controllertest.LifeNow.Add(10 * time.Minute) }
	r.pass(t)
	expectEvent(t, r, "Warning "+addonsv1.ClusterDeletionReleasedEvent+" The deletion of the Cluster continues, although "+
		"1 release was not uninstalled in time: h-c ("+string(clusterlink.CauseCredentials)+")")
}

func TestDeletionHoldWithFutureTimeBeginsNow(t *testing.T) {
	t.Parallel()
	future := controllertest.DeletingCluster("2036-11-21T22:25:00Z", true)
	if rest := clusterlife.DeletionRest(apiutil.HoldOf(future), controllertest.HoldingRelease(time.Minute),
		controllertest.LifeNow); rest != time.Minute {
		t.Errorf("the hold lasts for %s", rest)
	}
	r := lifeReconciler(t, future, controllertest.HoldingRelease(time.Minute))
	if cluster, _ := r.pass(t); !apiutil.HoldOf(cluster).Since.Equal(controllertest.LifeNow) ||
		!ptr.Deref(cluster.Spec.Paused, false) {
		t.Errorf("hold %v", cluster.Annotations)
	}
	r.now = func() time.Time { return controllertest.LifeNow.Add(time.Minute) }
	if cluster, _ := r.pass(t); !apiutil.HoldOf(cluster).Over {
		t.Errorf("still held: %v", cluster.Annotations)
	}
}
