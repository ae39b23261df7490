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
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&addonsv1.HelmOpRelease{}, apiutil.ClusterIndex,
		apiutil.ClustersOfRelease)
	for _, object := range append(objects, controllertest.HoldingHelmOp()) {
		builder.WithObjects(object.DeepCopyObject().(client.Object))
	}
	builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			err := c.Patch(ctx, object, patch, options...)
			if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
				// As an API server says that a JSON patch cannot be applied.
				return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{},
					object.GetName(), err.Error(), 0, false)
			}
			return err
		},
	})
	c := builder.Build()
	return &Reconciler{
		client: c, live: c, objects: clusterview.NewReader(c), recorder: events.NewFakeRecorder(100),
		forgetReads: func(client.ObjectKey) {}, now: func() time.Time { return controllertest.LifeNow },
	}
}

// pass makes one pass over the Cluster, and returns it as it is then; nil if it is gone.
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

func TestDeletionIsHeldFromTheBeginningToTheEnd(t *testing.T) {
	t.Parallel()
	release := controllertest.HoldingRelease(10 * time.Minute)
	bystander := controllertest.HoldingRelease(0)
	bystander.Name, bystander.UID, bystander.Spec.BeforeClusterDelete = "b-c", "b", nil
	r := lifeReconciler(t, controllertest.DeletingCluster("", false), release, bystander)

	cluster, _ := r.pass(t)
	if !apiutil.HoldOf(cluster).IsOn() || !ptr.Deref(cluster.Spec.Paused, false) ||
		!apiutil.HoldOf(cluster).Since.Equal(controllertest.LifeNow) {
		t.Fatalf("not held: %v %v", cluster.Annotations, cluster.Spec.Paused)
	}
	cluster, result := r.pass(t)
	if result.RequeueAfter != 10*time.Minute {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	stored := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(release), stored); err != nil ||
		stored.DeletionTimestamp.IsZero() {
		t.Fatalf("the release is not ended: %v", err)
	}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(bystander), stored); err != nil ||
		!stored.DeletionTimestamp.IsZero() {
		t.Fatalf("the other release is ended: %v", err)
	}
	if !apiutil.HoldOf(cluster).IsOn() {
		t.Fatal("let go too early")
	}
	controllertest.RemoveReleaseFinalizer(t, r.client, release)
	cluster, _ = r.pass(t)
	if !apiutil.HoldOf(cluster).Over || cluster.Spec.Paused != nil {
		t.Errorf("still held: %v %v", cluster.Annotations, cluster.Spec.Paused)
	}
	version := cluster.ResourceVersion
	if cluster, _ = r.pass(t); cluster.ResourceVersion != version {
		t.Error("written once more")
	}
}

// TestAUsersPauseOutlastsTheHold holds that the deletion of a Cluster does not go on while a user pauses the Cluster,
// that nothing of the Cluster is uninstalled meanwhile, and that all of the hold follows when the pause ends.
func TestAUsersPauseOutlastsTheHold(t *testing.T) {
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
		t.Fatalf("the release is ended: %v", err)
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
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	controllertest.RemoveReleaseFinalizer(t, r.client, release)
	if cluster, _ = r.pass(t); !apiutil.HoldOf(cluster).Over || cluster.Spec.Paused != nil {
		t.Errorf("still held: %v %v", cluster.Annotations, cluster.Spec.Paused)
	}
}

func TestDeletionIsLetGo(t *testing.T) {
	t.Parallel()
	moved := controllertest.DeletingCluster("", false)
	moved.Annotations[clusterctlv1.DeleteForMoveAnnotation] = ""
	withoutAsking := controllertest.HoldingRelease(time.Minute)
	withoutAsking.Spec.BeforeClusterDelete = nil
	tests := map[string]struct {
		cluster *clusterv1.Cluster
		release *addonsv1.HelmOpRelease
		hold    string
		paused  bool
		event   string
	}{
		"nobody asks": {cluster: controllertest.DeletingCluster("", false), release: withoutAsking},
		"somebody paused it": {cluster: controllertest.DeletingCluster("", true),
			release: controllertest.HoldingRelease(time.Minute), paused: true},
		"it is moved": {cluster: moved, release: controllertest.HoldingRelease(time.Minute)},
		"the time is over": {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
			release: controllertest.HoldingRelease(time.Minute), hold: apiutil.DeletionHoldOver,
			event: "Warning " + addonsv1.ClusterDeletionReleasedEvent},
		"a hold that is over stays so": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldOver, false),
			release: controllertest.HoldingRelease(time.Hour), hold: apiutil.DeletionHoldOver},
		"a hold goes on after a restart": {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
			release: controllertest.HoldingRelease(time.Hour), hold: controllertest.HeldSince, paused: true},
		"who asked thinks better of it": {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
			release: withoutAsking, hold: apiutil.DeletionHoldOver, event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"an unreadable mark begins now": {cluster: controllertest.DeletingCluster("yes", true),
			release: controllertest.HoldingRelease(time.Hour), hold: controllertest.LifeNow.Format(time.RFC3339), paused: true,
			event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"an unreadable mark, not paused": {cluster: controllertest.DeletingCluster("yes", false), release: withoutAsking,
			hold: "yes"},
		"a user pauses it meanwhile": {cluster: withAnnotation(controllertest.DeletingCluster(controllertest.HeldSince,
			true), clusterv1.PausedAnnotation), release: controllertest.HoldingRelease(time.Minute),
			hold: apiutil.DeletionHoldSuspended, paused: true, event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"a user still pauses it": {cluster: withAnnotation(controllertest.DeletingCluster(apiutil.DeletionHoldSuspended,
			true), clusterv1.PausedAnnotation), release: controllertest.HoldingRelease(time.Minute),
			hold: apiutil.DeletionHoldSuspended, paused: true},
		"the user's pause ends": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldSuspended, true),
			release: controllertest.HoldingRelease(time.Minute), hold: controllertest.LifeNow.Format(time.RFC3339), paused: true,
			event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"the user ends both pauses": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldSuspended, false),
			release: controllertest.HoldingRelease(time.Minute), hold: controllertest.LifeNow.Format(time.RFC3339), paused: true,
			event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"the annotation is somebody's": {cluster: withAnnotation(controllertest.DeletingCluster("", false),
			clusterv1.PausedAnnotation), release: controllertest.HoldingRelease(time.Hour)},
		"it is asked from elsewhere": {cluster: controllertest.DeletingCluster("", false),
			release: controllertest.OfNamespace("tenant", controllertest.HoldingRelease(24*time.Hour))},
		"its HelmOp is made up": {cluster: controllertest.DeletingCluster("", false),
			release: ofHelmOp("made-up", controllertest.HoldingRelease(24*time.Hour))},
		"nobody has made it": {cluster: controllertest.DeletingCluster("", false),
			release: ofHelmOp("", controllertest.HoldingRelease(24*time.Hour))},
		"it is held, and not for someone": {cluster: controllertest.DeletingCluster("", false),
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
		"held, and perhaps moved": {cluster: restored(controllertest.HeldSince, restoredHoldKept-time.Second),
			hold: controllertest.HeldSince, paused: true},
		"paused by a user": {cluster: restored("", restoredHoldKept), paused: true},
		"a mark that is not a time": {cluster: restored("yes", restoredHoldKept),
			event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"suspended by a user": {cluster: restored(apiutil.DeletionHoldSuspended, restoredHoldKept),
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

func withAnnotation(cluster *clusterv1.Cluster, key string) *clusterv1.Cluster {
	cluster.Annotations[key] = ""
	return cluster
}

// ofHelmOp has a release say that it is of another HelmOp.
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

// expectEvent fails unless the first Event begins like this; empty is none at all.
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

func TestADeletionHoldOfTheFutureBeginsNow(t *testing.T) {
	t.Parallel()
	future := controllertest.DeletingCluster("2036-11-21T22:25:00Z", true)
	if rest := clusterlife.DeletionRest(apiutil.HoldOf(future), controllertest.HoldingRelease(time.Minute),
		controllertest.LifeNow); rest != time.Minute {
		t.Errorf("it lasts for %s", rest)
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
