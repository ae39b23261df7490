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
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// fateBench is a HelmOp with revisions, a Cluster of another namespace, and a release for it that is made from revision 1.
type fateBench struct {
	*testing.T
	helmOp    *addonsv1.HelmOp
	revisions []*addonsv1.HelmOpRevision
	namespace *corev1.Namespace
	cluster   *clusterv1.Cluster
	release   *addonsv1.HelmOpRelease
}

func newFateBench(t *testing.T) *fateBench {
	b := &fateBench{T: t}
	b.helmOp = &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "calico", UID: "u"}, Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
	b.helmOp.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{ServiceAccountName: "installer"}
	b.helmOp.Spec.Release.Name = "three"
	b.revisions = []*addonsv1.HelmOpRevision{b.revision(1, "one"), b.revision(2, "two")}
	b.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{"team": "a"}}}
	b.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "one"}}
	b.release = releaseFor("platform", "child", addonsv1.ClusterReference{Namespace: "team", Name: "one"})
	b.release.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b.helmOp, addonsv1.GroupVersion.WithKind(helmOpKind))}
	b.release.Spec.Release = addonsv1.ReleaseIdentity{Name: "one", Namespace: defaultReleaseNamespace}
	b.release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, Reason: addonsv1.ReleaseRolloutUpdated}
	return b
}

// revision is one under which the release has a name.
func (b *fateBench) revision(number int64, name string) *addonsv1.HelmOpRevision {
	revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: revisionName("calico", number)}}
	revision.Spec.Number = number
	revision.Spec.HelmOp = *b.helmOp.Spec.DeepCopy()
	revision.Spec.HelmOp.Release.Name = name
	return revision
}

// client has a copy of all that there is: the fake one writes resource versions into what it is given.
func (b *fateBench) client() client.Client {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme, corev1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&addonsv1.HelmOpRelease{}, clusterIndex, clustersOfRelease).
		WithObjects(b.namespace.DeepCopy(), b.cluster.DeepCopy(), b.release.DeepCopy())
	if b.helmOp != nil {
		builder.WithObjects(b.helmOp.DeepCopy())
	}
	for _, revision := range b.revisions {
		builder.WithObjects(revision.DeepCopy())
	}
	return builder.Build()
}

func fateReconciler(b *fateBench) *releaseReconciler {
	c := b.client()
	return &releaseReconciler{client: c, live: c, renderer: newRenderer(newReferenceReader(c, c), newObjectReader(c)), guard: newClusterGuard(c)}
}

// TestFateGoesByTheRevision holds that a release is judged by what it is made from, unless the HelmOp says that another one takes its
// place: during a rollout, and after one that was given up, both are something else than what the HelmOp wants now.
func TestFateGoesByTheRevision(t *testing.T) {
	t.Parallel()
	replaced := func(number string) func(*fateBench) {
		return func(b *fateBench) {
			b.release.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: number}
		}
	}
	// given is replaced, for a revision of which something became.
	given := func(number string, phase addonsv1.RolloutPhase) func(*fateBench) {
		return func(b *fateBench) {
			replaced(number)(b)
			b.revisions[1].Status.Phase = phase
		}
	}
	for name, test := range map[string]struct {
		change func(*fateBench)
		want   releaseFate
	}{
		"of an earlier revision":                 {nil, fateWanted},
		"of one that is gone":                    {func(b *fateBench) { b.revisions = b.revisions[1:] }, fateWanted},
		"of none that is known":                  {func(b *fateBench) { b.release.Spec.Rollout = nil }, fateReplaced},
		"made way for another":                   {replaced("2"), fateReplaced},
		"made way for one that wants it as well": {replaced("1"), fateWanted},
		"made way for one that is gone":          {replaced("9"), fateReplaced},
		"an annotation that says nothing":        {replaced("x"), fateWanted},
		"made way for one that was rolled back":  {given("2", addonsv1.RolloutPhaseRolledBack), fateWanted},
		"made way for one that was aborted":      {given("2", addonsv1.RolloutPhaseAborted), fateWanted},
		"made way for one that is rolled out":    {given("2", addonsv1.RolloutPhaseComplete), fateReplaced},
		"made way for one that was superseded":   {given("2", addonsv1.RolloutPhaseSuperseded), fateReplaced},
		"made way for one that was taken back": {func(b *fateBench) {
			given("2", addonsv1.RolloutPhaseSuperseded)(b)
			b.helmOp.Spec.Release.Name = b.release.Spec.Release.Name
		}, fateWanted},
		"the namespace is not chosen": {func(b *fateBench) {
			b.helmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "b"}
		}, fateEnds},
		"the namespace is chosen": {func(b *fateBench) {
			b.helmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
		}, fateWanted},
		"other namespaces are not": {func(b *fateBench) { b.helmOp.Spec.ClusterNamespaces = nil }, fateEnds},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFateBench(t)
			if test.change != nil {
				test.change(b)
			}
			if got, err := fateReconciler(b).fateOf(t.Context(), b.release); got != test.want || err != nil {
				t.Errorf("fate %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// TestNothingIsBegunForAHelmOpThatEnds holds that a release whose own deletion is not known yet is left alone as soon as that of its HelmOp
// is: a hook that waits would hold up the uninstallation for as long as it may run.
func TestNothingIsBegunForAHelmOpThatEnds(t *testing.T) {
	t.Parallel()
	b := newFateBench(t)
	b.cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.cluster)
	if err != nil {
		t.Fatal(err)
	}
	b.helmOp.DeletionTimestamp = new(metav1.Now())
	scope := &releaseScope{release: b.release, helmOp: b.helmOp, cluster: b.cluster, object: &unstructured.Unstructured{Object: object}}
	// There is neither a connection nor an engine: whoever asks for one fails.
	result, err := (&releaseReconciler{}).reconcileNormal(t.Context(), scope)
	if err != nil || !result.IsZero() {
		t.Errorf("%v, %v", result, err)
	}
	ready := conditions.Get(b.release, addonsv1.ReadyCondition)
	if ready == nil || ready.Reason != addonsv1.DeletingReason || len(b.release.Finalizers) > 0 {
		t.Errorf("Ready %v, finalizers %v", ready, b.release.Finalizers)
	}
}

// TestStillServes holds that a release that is gone from the cache is somebody else's, and that one that cannot be read is looked at again.
func TestStillServes(t *testing.T) {
	t.Parallel()
	unread := errors.New("unread")
	for name, test := range map[string]struct {
		answer      error
		ok, leaving bool
		want        error
	}{
		"there":          {ok: true},
		"gone":           {answer: apierrors.NewNotFound(schema.GroupResource{}, "child"), leaving: true},
		"not to be read": {answer: unread, want: unread},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFateBench(t)
			c, ok := b.client().(client.WithWatch)
			if !ok {
				t.Fatal("the client cannot watch")
			}
			r := &releaseReconciler{client: interceptor.NewClient(c, interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return test.answer
				},
			})}
			scope := &releaseScope{release: b.release}
			if now, err := r.stillServes(t.Context(), scope); (now != nil) != test.ok || scope.isLeaving != test.leaving || !errors.Is(err, test.want) {
				t.Errorf("%v, %v, leaving: %t", now, err, scope.isLeaving)
			}
		})
	}
}

// TestReplaceChild holds that the object says why it goes before it goes.
func TestReplaceChild(t *testing.T) {
	t.Parallel()
	b := newFateBench(t)
	b.release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
	c := b.client()
	for range 2 {
		child := &addonsv1.HelmOpRelease{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.release), child); err != nil {
			t.Fatal(err)
		}
		if err := replaceChild(t.Context(), c, child, 7); err != nil {
			t.Fatal(err)
		}
	}
	child := &addonsv1.HelmOpRelease{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.release), child); err != nil {
		t.Fatal(err)
	}
	if number, ok := replacedBy(child); !ok || number != 7 || child.DeletionTimestamp.IsZero() {
		t.Errorf("replaced by %d, %t, deleted at %s", number, ok, child.DeletionTimestamp)
	}
	child.Name = "gone"
	if err := replaceChild(t.Context(), c, child, 8); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// TestChildIsKept holds that a child that stays says no longer that it makes way to another one, and that one that ends goes on to say so.
func TestChildIsKept(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*helmOpReconciler, *fateBench, *addonsv1.HelmOpRelease) error{
		"told": func(r *helmOpReconciler, b *fateBench, child *addonsv1.HelmOpRelease) error {
			return r.updateChild(b.Context(), b.helmOp, &clusterScope{child: child}, child.Spec)
		},
		"repaired": func(r *helmOpReconciler, b *fateBench, child *addonsv1.HelmOpRelease) error {
			return r.repairChild(b.Context(), b.helmOp, child)
		},
	}
	for name, way := range ways {
		for _, isEnding := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ends: %t", name, isEnding), func(t *testing.T) {
				t.Parallel()
				b := newFateBench(t)
				b.release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
				b.release.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: "2", "other": "stays"}
				c := b.client()
				r := &helmOpReconciler{client: c, live: c, now: time.Now, told: newToldGenerations(), renderer: newRenderer(nil, newObjectReader(c))}
				read := func() *addonsv1.HelmOpRelease {
					child := &addonsv1.HelmOpRelease{}
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.release), child); err != nil {
						t.Fatal(err)
					}
					return child
				}
				cached := read()
				if isEnding {
					if err := c.Delete(t.Context(), read()); err != nil {
						t.Fatal(err)
					}
					if err := way(r, b, cached); !apierrors.IsConflict(err) {
						t.Errorf("the cache is late: %v, want a conflict", err)
					}
					cached = read()
				}
				if err := way(r, b, cached); err != nil {
					t.Fatal(err)
				}
				child := read()
				if _, says := replacedBy(child); says != isEnding || child.Annotations["other"] != "stays" || !metav1.IsControlledBy(child, b.helmOp) {
					t.Errorf("annotations %v, owners %v", child.Annotations, child.OwnerReferences)
				}
			})
		}
	}
}

// TestValuesAreThoseOfTheRevision holds that what is rendered is what the release is made from, as far as that is kept.
func TestValuesAreThoseOfTheRevision(t *testing.T) {
	t.Parallel()
	b := newFateBench(t)
	r := fateReconciler(b)
	scope := &releaseScope{release: b.release, helmOp: b.helmOp}
	for number, want := range map[int64]string{0: "three", 1: "one", 2: "two"} {
		b.release.Spec.Rollout.Revision = number
		at, err := r.helmOpOf(t.Context(), scope)
		if err != nil || at.Spec.Release.Name != want {
			t.Errorf("revision %d: %v, %v", number, at, err)
		}
	}
	b.release.Spec.Rollout.Revision = 9
	if _, err := r.helmOpOf(t.Context(), scope); !errors.Is(err, errOutdated) || !strings.Contains(err.Error(), "revision 9") || apierrors.IsNotFound(err) {
		t.Errorf("a revision that is gone: %v", err)
	}
}

// TestReleaseStaysAtItsRevision holds when a release may be made what an earlier revision wanted: not while it is about to be told something
// else.
func TestReleaseStaysAtItsRevision(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*fateBench)
		want   bool
	}{
		"it was told nothing else":            {nil, true},
		"the HelmOp is yet to look":           {func(b *fateBench) { b.helmOp.Generation = 4 }, false},
		"it was told, unseen by the cache":    {func(b *fateBench) { b.release.Generation = 2 }, false},
		"it is made from none that is known":  {func(b *fateBench) { b.release.Spec.Rollout = nil }, false},
		"the HelmOp has looked at the newest": {func(b *fateBench) { b.helmOp.Generation, b.helmOp.Status.ObservedGeneration = 4, 4 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFateBench(t)
			b.helmOp.Generation, b.helmOp.Status.ObservedGeneration, b.release.Generation = 3, 3, 1
			r := fateReconciler(b)
			if test.change != nil {
				test.change(b)
			}
			if stays, err := r.staysAtRevision(t.Context(), &releaseScope{release: b.release, helmOp: b.helmOp}); stays != test.want || err != nil {
				t.Errorf("it stays: %t, %v; want %t", stays, err, test.want)
			}
		})
	}
}

// TestOutdatedError holds what people are told of values that are other ones than a release was told.
func TestOutdatedError(t *testing.T) {
	t.Parallel()
	b := newFateBench(t)
	scope := &releaseScope{release: b.release, helmOp: b.helmOp}
	refers := b.helmOp.DeepCopy()
	refers.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: kindSecret, Name: "s"}}
	wanted := func(number int64) { b.helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: number} }
	if err := outdatedError(scope, refers); err != errOutdated { //nolint:errorlint // It must be no other.
		t.Errorf("nothing is known of the rollout: %v", err)
	}
	wanted(1)
	if err := outdatedError(scope, refers); err != errOutdated { //nolint:errorlint // It must be no other.
		t.Errorf("its revision is the one that is wanted: %v", err)
	}
	wanted(2)
	if err := outdatedError(scope, b.helmOp); err != errOutdated { //nolint:errorlint // It must be no other.
		t.Errorf("it refers to nothing: %v", err)
	}
	err := outdatedError(scope, refers)
	if !errors.Is(err, errOutdated) || !strings.Contains(err.Error(), "since revision 1") {
		t.Errorf("another revision is wanted: %v", err)
	}
}

// TestMayAccess holds who may work in a Cluster of another namespace.
func TestMayAccess(t *testing.T) {
	t.Parallel()
	b := newFateBench(t)
	type reviews map[string]bool // What the API server permits, by "<service account>/<Secret>".
	for name, test := range map[string]struct {
		change func(*releaseScope)
		grants reviews
		want   bool
	}{
		"its own namespace":  {func(s *releaseScope) { s.release.Spec.ClusterRef.Namespace, s.helmOp = "", nil }, nil, true},
		"granted":            {nil, reviews{"installer/one-kubeconfig": true}, true},
		"all are granted":    {nil, reviews{"installer/": true}, true},
		"not granted":        {nil, nil, false},
		"not wanted":         {func(s *releaseScope) { s.helmOp.Spec.ClusterNamespaces = nil }, reviews{"installer/": true}, false},
		"the HelmOp is gone": {func(s *releaseScope) { s.helmOp = nil }, reviews{"installer/": true}, false},
		"granted to another": {func(s *releaseScope) { s.helmOp.Spec.ClusterNamespaces.ServiceAccountName = "other" }, reviews{"installer/": true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fateReconciler(b)
			r.recorder, r.watcher = events.NewFakeRecorder(10), forgettingWatcher{forgetting: &forgetting{}}
			r.written, r.drifts = newWrittenGenerations(), newDriftMemories()
			r.guard = newClusterGuard(interceptor.NewClient(b.client().(client.WithWatch), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
					review := obj.(*authorizationv1.SubjectAccessReview)
					account := strings.TrimPrefix(review.Spec.User, "system:serviceaccount:platform:")
					review.Status.Allowed = review.Spec.ResourceAttributes.Namespace == "team" &&
						test.grants[account+"/"+review.Spec.ResourceAttributes.Name]
					return nil
				},
			}))
			scope := &releaseScope{release: b.release.DeepCopy(), helmOp: b.helmOp.DeepCopy()}
			if test.change != nil {
				test.change(scope)
			}
			allowed, err := r.mayAccess(t.Context(), scope)
			if allowed != test.want || err != nil {
				t.Errorf("allowed: %t, %v; want %t", allowed, err, test.want)
			}
			isDenied := len(scope.release.Status.Conditions) == 1 && scope.release.Status.Conditions[0].Reason == addonsv1.ClusterAccessDeniedReason
			if isDenied == test.want {
				t.Errorf("the conditions: %+v", scope.release.Status.Conditions)
			}
		})
	}
}
