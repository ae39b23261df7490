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

package controllers

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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

var lifeNow = time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)

const heldSince = "2026-11-21T22:25:00Z" // 5 minutes ago

func goingCluster(hold string, paused bool) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u",
		DeletionTimestamp: &metav1.Time{Time: lifeNow}, Finalizers: []string{clusterv1.ClusterFinalizer}, Annotations: map[string]string{}}}
	if hold != "" {
		cluster.Annotations[addonsv1.DeletionHoldAnnotation] = hold
	}
	if paused {
		cluster.Spec.Paused = ptr.To(true)
	}
	return cluster
}

func leavingRelease(timeout time.Duration) *addonsv1.HelmOpRelease {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h-c", UID: "r", Finalizers: []string{addonsv1.HelmOpReleaseFinalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: addonsv1.GroupVersion.String(), Kind: helmOpKind, Name: "h", UID: "o", Controller: ptr.To(true)}}}}
	release.Spec.ClusterRef.Name = "c"
	release.Spec.DeletionPolicy = addonsv1.DeletionPolicyUninstall
	release.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{Timeout: metav1.Duration{Duration: timeout}}
	return release
}

func leavingHelmOp() *addonsv1.HelmOp {
	return &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", UID: "o"}, Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
}

func TestHoldOf(t *testing.T) {
	t.Parallel()
	alive := goingCluster(heldSince, true)
	alive.DeletionTimestamp = nil
	tests := map[string]struct {
		cluster  *clusterv1.Cluster
		on, over bool
		paused   bool
	}{
		"none":                              {cluster: goingCluster("", false)},
		"none, and somebody paused it":      {cluster: goingCluster("", true), paused: true},
		"on: the pause is ours":             {cluster: goingCluster(heldSince, true), on: true},
		"over":                              {cluster: goingCluster(deletionHoldOver, false), over: true},
		"over, and somebody paused it":      {cluster: goingCluster(deletionHoldOver, true), over: true, paused: true},
		"malformed, until it is mended":     {cluster: goingCluster("yes", true), paused: true},
		"one that came back is not deleted": {cluster: alive, paused: true},
	}
	for name, tc := range tests {
		hold := holdOf(tc.cluster)
		if hold.isOn() != tc.on || hold.over != tc.over || isClusterPaused(tc.cluster) != tc.paused {
			t.Errorf("%s: %+v, paused %t", name, hold, isClusterPaused(tc.cluster))
		}
	}
	annotated := goingCluster(heldSince, true)
	annotated.Annotations[clusterv1.PausedAnnotation] = ""
	if !isClusterPaused(annotated) {
		t.Error("the paused annotation is somebody else's and counts")
	}
}

func TestUninstallsBeforeDeletion(t *testing.T) {
	t.Parallel()
	none := leavingRelease(time.Hour)
	none.Spec.BeforeClusterDelete = nil
	orphan := leavingRelease(time.Hour)
	orphan.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
	paused := leavingRelease(time.Hour)
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	withDefaults := leavingRelease(0)
	tests := map[string]struct {
		hold    string
		release *addonsv1.HelmOpRelease
		helmOp  func(*addonsv1.HelmOp)
		want    bool
	}{
		"it does not ask":                    {hold: heldSince, release: none},
		"it asks, before the hold":           {release: leavingRelease(time.Minute), want: true},
		"it asks, in time":                   {hold: heldSince, release: leavingRelease(time.Hour), want: true},
		"it asks, and the default is longer": {hold: heldSince, release: withDefaults, want: true},
		"its time is over":                   {hold: heldSince, release: leavingRelease(5 * time.Minute)},
		"the hold is over":                   {hold: deletionHoldOver, release: leavingRelease(time.Hour)},
		"it is orphaned":                     {hold: heldSince, release: orphan},
		"its HelmOp orphans it":              {hold: heldSince, release: leavingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan }},
		"its HelmOp is suspended":            {hold: heldSince, release: leavingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.Spec.Suspend = true }},
		"its HelmOp is being deleted":        {hold: heldSince, release: leavingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &metav1.Time{Time: lifeNow} }, want: true},
		"its HelmOp is another one":          {hold: heldSince, release: leavingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.UID = "another" }},
		"it is of another namespace":         {hold: heldSince, release: ofNamespace("tenant", leavingRelease(time.Hour)), helmOp: func(h *addonsv1.HelmOp) { h.Namespace = "tenant" }},
		"it is paused":                       {hold: heldSince, release: paused},
	}
	for name, tc := range tests {
		helmOp := leavingHelmOp()
		if tc.helmOp != nil {
			tc.helmOp(helmOp)
		}
		if got := uninstallsBeforeDeletion(goingCluster(tc.hold, true), tc.release, helmOp, lifeNow); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if uninstallsBeforeDeletion(goingCluster(heldSince, true), leavingRelease(time.Hour), nil, lifeNow) {
		t.Error("it has no HelmOp")
	}
}

func TestBeforeDeletionWaitsWithinTheHold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		hold    string
		timeout time.Duration
		want    model.UninstallOptions
	}{
		"no hold":                  {want: model.UninstallOptions{}},
		"the hold ends first":      {hold: heldSince, timeout: time.Hour, want: model.UninstallOptions{Wait: true, Timeout: 7 * time.Minute}},
		"the uninstall ends first": {hold: heldSince, timeout: time.Minute, want: model.UninstallOptions{Wait: true, Timeout: time.Minute}},
		"the user says nothing":    {hold: heldSince, want: model.UninstallOptions{Wait: true, Timeout: 7 * time.Minute}},
	}
	for name, tc := range tests {
		options := model.UninstallOptions{Timeout: tc.timeout}
		beforeDeletion(&options, goingCluster(tc.hold, true), leavingRelease(12*time.Minute), lifeNow)
		if options != tc.want {
			t.Errorf("%s: %+v", name, options)
		}
	}
}

// lifeReconciler is a reconciler of Clusters over copies of these objects: parallel tests share some, and the client writes into them.
func lifeReconciler(t *testing.T, objects ...client.Object) *clusterReconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&addonsv1.HelmOpRelease{}, clusterIndex, clustersOfRelease)
	for _, object := range append(objects, leavingHelmOp()) {
		builder.WithObjects(object.DeepCopyObject().(client.Object))
	}
	builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			err := c.Patch(ctx, object, patch, options...)
			if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
				// As an API server says that a JSON patch cannot be applied.
				return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, object.GetName(), err.Error(), 0, false)
			}
			return err
		},
	})
	c := builder.Build()
	return &clusterReconciler{client: c, disconnect: func(client.ObjectKey) {}, endDoubt: func(client.ObjectKey) {}, hasArrived: func(*addonsv1.HelmOp) bool { return true }, live: c, objects: newObjectReader(c), recorder: events.NewFakeRecorder(100), now: func() time.Time { return lifeNow },
		unseen: &unseenReleases{}}
}

// pass makes one pass over the Cluster, and returns it as it is then; nil if it is gone.
func (r *clusterReconciler) pass(t *testing.T) (*clusterv1.Cluster, ctrl.Result) {
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
	release := leavingRelease(10 * time.Minute)
	bystander := leavingRelease(0)
	bystander.Name, bystander.UID, bystander.Spec.BeforeClusterDelete = "b-c", "b", nil
	r := lifeReconciler(t, goingCluster("", false), release, bystander)

	cluster, _ := r.pass(t)
	if !holdOf(cluster).isOn() || !ptr.Deref(cluster.Spec.Paused, false) || !holdOf(cluster).since.Equal(lifeNow) {
		t.Fatalf("not held: %v %v", cluster.Annotations, cluster.Spec.Paused)
	}
	cluster, result := r.pass(t)
	if result.RequeueAfter != 10*time.Minute {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	stored := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(release), stored); err != nil || stored.DeletionTimestamp.IsZero() {
		t.Fatalf("the release is not ended: %v", err)
	}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(bystander), stored); err != nil || !stored.DeletionTimestamp.IsZero() {
		t.Fatalf("the other release is ended: %v", err)
	}
	if !holdOf(cluster).isOn() {
		t.Fatal("let go too early")
	}
	letGo(t, r.client, release)
	cluster, _ = r.pass(t)
	if !holdOf(cluster).over || cluster.Spec.Paused != nil {
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
	release := leavingRelease(10 * time.Minute)
	r := lifeReconciler(t, withAnnotation(goingCluster(heldSince, true), clusterv1.PausedAnnotation), release)
	for range 2 {
		cluster, _ := r.pass(t)
		if !isClusterPaused(cluster) || !ptr.Deref(cluster.Spec.Paused, false) || holdOf(cluster).isOn() {
			t.Fatalf("annotations %v, paused %v", cluster.Annotations, cluster.Spec.Paused)
		}
		r.now = func() time.Time { return lifeNow.Add(24 * time.Hour) }
	}
	stored := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(release), stored); err != nil || !stored.DeletionTimestamp.IsZero() {
		t.Fatalf("the release is ended: %v", err)
	}
	cluster, _ := r.pass(t)
	delete(cluster.Annotations, clusterv1.PausedAnnotation)
	if err := r.client.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if cluster, _ = r.pass(t); !holdOf(cluster).isOn() || isClusterPaused(cluster) {
		t.Fatalf("the hold does not begin again: %v", cluster.Annotations)
	}
	if _, result := r.pass(t); result.RequeueAfter != 10*time.Minute {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	letGo(t, r.client, release)
	if cluster, _ = r.pass(t); !holdOf(cluster).over || cluster.Spec.Paused != nil {
		t.Errorf("still held: %v %v", cluster.Annotations, cluster.Spec.Paused)
	}
}

func letGo(t *testing.T, c client.Client, release *addonsv1.HelmOpRelease) {
	t.Helper()
	stored := &addonsv1.HelmOpRelease{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(release), stored); err != nil {
		t.Fatal(err)
	}
	stored.Finalizers = nil
	if err := c.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
}

func TestDeletionIsLetGo(t *testing.T) {
	t.Parallel()
	moved := goingCluster("", false)
	moved.Annotations[clusterctlv1.DeleteForMoveAnnotation] = ""
	withoutAsking := leavingRelease(time.Minute)
	withoutAsking.Spec.BeforeClusterDelete = nil
	tests := map[string]struct {
		cluster *clusterv1.Cluster
		release *addonsv1.HelmOpRelease
		hold    string
		paused  bool
		event   string
	}{
		"nobody asks":                     {cluster: goingCluster("", false), release: withoutAsking},
		"somebody paused it":              {cluster: goingCluster("", true), release: leavingRelease(time.Minute), paused: true},
		"it is moved":                     {cluster: moved, release: leavingRelease(time.Minute)},
		"the time is over":                {cluster: goingCluster(heldSince, true), release: leavingRelease(time.Minute), hold: deletionHoldOver, event: "Warning " + addonsv1.ClusterDeletionReleasedEvent},
		"a hold that is over stays so":    {cluster: goingCluster(deletionHoldOver, false), release: leavingRelease(time.Hour), hold: deletionHoldOver},
		"a hold goes on after a restart":  {cluster: goingCluster(heldSince, true), release: leavingRelease(time.Hour), hold: heldSince, paused: true},
		"who asked thinks better of it":   {cluster: goingCluster(heldSince, true), release: withoutAsking, hold: deletionHoldOver, event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"an unreadable mark begins now":   {cluster: goingCluster("yes", true), release: leavingRelease(time.Hour), hold: lifeNow.Format(time.RFC3339), paused: true, event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"an unreadable mark, not paused":  {cluster: goingCluster("yes", false), release: withoutAsking, hold: "yes"},
		"a user pauses it meanwhile":      {cluster: withAnnotation(goingCluster(heldSince, true), clusterv1.PausedAnnotation), release: leavingRelease(time.Minute), hold: deletionHoldSuspended, paused: true, event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"a user still pauses it":          {cluster: withAnnotation(goingCluster(deletionHoldSuspended, true), clusterv1.PausedAnnotation), release: leavingRelease(time.Minute), hold: deletionHoldSuspended, paused: true},
		"the user's pause ends":           {cluster: goingCluster(deletionHoldSuspended, true), release: leavingRelease(time.Minute), hold: lifeNow.Format(time.RFC3339), paused: true, event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"the user ends both pauses":       {cluster: goingCluster(deletionHoldSuspended, false), release: leavingRelease(time.Minute), hold: lifeNow.Format(time.RFC3339), paused: true, event: "Normal " + addonsv1.ClusterDeletionHeldEvent},
		"the annotation is somebody's":    {cluster: withAnnotation(goingCluster("", false), clusterv1.PausedAnnotation), release: leavingRelease(time.Hour)},
		"it is asked from elsewhere":      {cluster: goingCluster("", false), release: ofNamespace("tenant", leavingRelease(24*time.Hour))},
		"its HelmOp is made up":           {cluster: goingCluster("", false), release: ofHelmOp("made-up", leavingRelease(24*time.Hour))},
		"nobody has made it":              {cluster: goingCluster("", false), release: ofHelmOp("", leavingRelease(24*time.Hour))},
		"it is held, and not for someone": {cluster: goingCluster("", false), release: ofAnotherCluster(leavingRelease(time.Hour))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lifeReconciler(t, tc.cluster, tc.release)
			cluster, _ := r.pass(t)
			if got := cluster.Annotations[addonsv1.DeletionHoldAnnotation]; got != tc.hold || ptr.Deref(cluster.Spec.Paused, false) != tc.paused {
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
		cluster := goingCluster(hold, true)
		cluster.DeletionTimestamp, cluster.CreationTimestamp = nil, metav1.NewTime(lifeNow.Add(-ago))
		return cluster
	}
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		hold    string
		paused  bool
		event   string
	}{
		"held":                       {cluster: restored(heldSince, restoredHoldKept), event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"held, and perhaps moved":    {cluster: restored(heldSince, restoredHoldKept-time.Second), hold: heldSince, paused: true},
		"paused by a user":           {cluster: restored("", restoredHoldKept), paused: true},
		"a mark that is not a time":  {cluster: restored("yes", restoredHoldKept), event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"suspended by a user":        {cluster: restored(deletionHoldSuspended, restoredHoldKept), event: "Normal " + addonsv1.ClusterDeletionReleasedEvent},
		"over, and paused by a user": {cluster: restored(deletionHoldOver, restoredHoldKept), hold: deletionHoldOver, paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lifeReconciler(t, tc.cluster, leavingRelease(time.Hour))
			cluster, _ := r.pass(t)
			if got := cluster.Annotations[addonsv1.DeletionHoldAnnotation]; got != tc.hold || ptr.Deref(cluster.Spec.Paused, false) != tc.paused {
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

// ofNamespace is a release of another namespace than its Cluster.
func ofNamespace(namespace string, release *addonsv1.HelmOpRelease) *addonsv1.HelmOpRelease {
	release.Spec.ClusterRef.Namespace, release.Namespace = release.Namespace, namespace
	return release
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
func expectEvent(t *testing.T, r *clusterReconciler, begin string) {
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
	future := goingCluster("2036-11-21T22:25:00Z", true)
	if rest := deletionRest(holdOf(future), leavingRelease(time.Minute), lifeNow); rest != time.Minute {
		t.Errorf("it lasts for %s", rest)
	}
	r := lifeReconciler(t, future, leavingRelease(time.Minute))
	if cluster, _ := r.pass(t); !holdOf(cluster).since.Equal(lifeNow) || !ptr.Deref(cluster.Spec.Paused, false) {
		t.Errorf("hold %v", cluster.Annotations)
	}
	r.now = func() time.Time { return lifeNow.Add(time.Minute) }
	if cluster, _ := r.pass(t); !holdOf(cluster).over {
		t.Errorf("still held: %v", cluster.Annotations)
	}
}

func TestWhatWasNotSeenToGoIsNamed(t *testing.T) {
	t.Parallel()
	withoutAsking := leavingRelease(time.Minute)
	withoutAsking.Spec.BeforeClusterDelete = nil
	r := lifeReconciler(t, goingCluster(heldSince, true), withoutAsking)
	r.unseen.add(clusterKey(withoutAsking), "gone")
	r.pass(t)
	expectEvent(t, r, "Warning "+addonsv1.ClusterDeletionReleasedEvent+" 1 releases were not uninstalled in time, or not seen to be wholly gone")
	if left := r.unseen.take(clusterKey(withoutAsking)); len(left) != 0 {
		t.Errorf("something is left: %v", left)
	}
}

func TestWhatEndsUnseenIsNoted(t *testing.T) {
	t.Parallel()
	gone := &releaseScope{release: leavingRelease(time.Minute), cluster: goingCluster(heldSince, true)}
	r := &releaseReconciler{unseen: &unseenReleases{}}
	r.noteUnseen(gone, lastUninstallFailed(gone.release))
	if noted := r.unseen.take(clusterKey(gone.release)); len(noted) != 0 {
		t.Errorf("nothing failed, but noted are %v", noted)
	}
	gone.release.Status.History = []addonsv1.ReleaseAction{{Action: verbUninstall}}
	r.noteUnseen(gone, lastUninstallFailed(gone.release))
	if noted := r.unseen.take(clusterKey(gone.release)); len(noted) != 1 {
		t.Errorf("noted are %v", noted)
	}
}

func TestWhatIsForgottenWhenItsTimeIsOverIsNamed(t *testing.T) {
	t.Parallel()
	r := &releaseReconciler{unseen: &unseenReleases{}, now: func() time.Time { return lifeNow }}
	scope := &releaseScope{release: leavingRelease(time.Minute), helmOp: leavingHelmOp(), cluster: goingCluster(heldSince, true)}
	if _, err := r.reconcileDelete(t.Context(), scope); err != nil || len(scope.release.Finalizers) != 0 {
		t.Fatalf("it is not forgotten: %v", err)
	}
	if noted := r.unseen.take(clusterKey(scope.release)); len(noted) != 1 {
		t.Errorf("noted are %v", noted)
	}
}

func TestUninstallationsThatWaitTakeAThirdOfTheWorkers(t *testing.T) {
	t.Parallel()
	now := lifeNow
	r := &releaseReconciler{slots: newActionSlots(8, 0, &waker{}), now: func() time.Time { return now }}
	take := func(cluster string, hold string) (done func(), ok, waits bool) {
		options := &model.UninstallOptions{}
		release := leavingRelease(20 * time.Minute)
		release.Name = cluster
		done, _ = r.uninstallSlot(&releaseScope{release: release, cluster: goingCluster(hold, true)}, options, cluster, "h")
		return done, done != nil, options.Wait
	}
	first, ok, waits := take("a", heldSince)
	if _, second, _ := take("b", heldSince); !ok || !waits || !second {
		t.Fatal("two of eight may wait")
	}
	if _, ok, _ := take("c", heldSince); ok {
		t.Error("a third one waits, too")
	}
	if _, ok, waits := take("d", ""); !ok || waits {
		t.Error("what does not wait has to")
	}
	now = lifeNow.Add(10 * time.Minute) // Of 20 minutes, 15 are over.
	if _, ok, waits := take("c", heldSince); !ok || waits {
		t.Error("it is not uninstalled at all")
	}
	first()
	if _, ok, waits := take("e", heldSince); !ok || !waits {
		t.Error("the place is not given back")
	}
}
