// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

func fateReconciler(b *controllertest.ReleaseBench) *Reconciler {
	c := b.Client()
	return &Reconciler{client: c, live: c, renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c)),
		guard: selection.NewGuard(c)}
}

// TestFateGoesByTheRevision holds that a release is judged by what it is made from, unless the HelmOp says that another
// one takes its place: during a rollout, and after one that was given up, both are something else than what the HelmOp
// wants now.
func TestFateGoesByTheRevision(t *testing.T) {
	t.Parallel()
	replaced := func(number string) func(*controllertest.ReleaseBench) {
		return func(b *controllertest.ReleaseBench) {
			b.Release.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: number}
		}
	}
	// given is replaced, for a revision of which something became.
	given := func(number string, phase addonsv1.RolloutPhase) func(*controllertest.ReleaseBench) {
		return func(b *controllertest.ReleaseBench) {
			replaced(number)(b)
			b.Revisions[1].Status.Phase = phase
		}
	}
	for name, test := range map[string]struct {
		change func(*controllertest.ReleaseBench)
		want   deletionIntent
	}{
		"of an earlier revision": {nil, intentKeep},
		"of one that is gone": {func(b *controllertest.ReleaseBench) { b.Revisions = b.Revisions[1:] },
			intentKeep},
		"of none that is known": {func(b *controllertest.ReleaseBench) { b.Release.Spec.Rollout = nil },
			intentReplace},
		"made way for another":                   {replaced("2"), intentReplace},
		"made way for one that wants it as well": {replaced("1"), intentKeep},
		"made way for one that is gone":          {replaced("9"), intentReplace},
		"an annotation that says nothing":        {replaced("x"), intentKeep},
		"made way for one that was rolled back":  {given("2", addonsv1.RolloutPhaseRolledBack), intentKeep},
		"made way for one that was aborted":      {given("2", addonsv1.RolloutPhaseAborted), intentKeep},
		"made way for one that is rolled out":    {given("2", addonsv1.RolloutPhaseComplete), intentReplace},
		"made way for one that was superseded":   {given("2", addonsv1.RolloutPhaseSuperseded), intentReplace},
		"made way for one that was taken back": {func(b *controllertest.ReleaseBench) {
			given("2", addonsv1.RolloutPhaseSuperseded)(b)
			b.HelmOp.Spec.Release.Name = b.Release.Spec.Release.Name
		}, intentKeep},
		"the namespace is not chosen": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "b"}
		}, intentUninstall},
		"the namespace is chosen": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
		}, intentKeep},
		"other namespaces are not": {func(b *controllertest.ReleaseBench) { b.HelmOp.Spec.ClusterNamespaces = nil },
			intentUninstall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			if test.change != nil {
				test.change(b)
			}
			if got, err := fateReconciler(b).deletionIntentOf(t.Context(), b.Release); got != test.want || err != nil {
				t.Errorf("fate %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// TestNothingIsBegunForAHelmOpThatEnds holds that a release whose own deletion is not known yet is left alone as soon
// as that of its HelmOp is: a hook that waits would hold up the uninstallation for as long as it may run.
func TestNothingIsBegunForAHelmOpThatEnds(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	b.HelmOp.DeletionTimestamp = new(metav1.Now())
	scope := &releaseScope{release: b.Release, helmOp: b.HelmOp, cluster: b.Cluster,
		object: &unstructured.Unstructured{Object: object}}
	// There is neither a connection nor an engine: whoever asks for one fails.
	result, err := (&Reconciler{}).reconcileNormal(t.Context(), scope)
	if err != nil || !result.IsZero() {
		t.Errorf("%v, %v", result, err)
	}
	ready := conditions.Get(b.Release, addonsv1.ReadyCondition)
	if ready == nil || ready.Reason != addonsv1.DeletingReason || len(b.Release.Finalizers) > 0 {
		t.Errorf("Ready %v, finalizers %v", ready, b.Release.Finalizers)
	}
}

// TestStillServes holds that a release that is gone from the cache is somebody else's, and that one that cannot be read
// is looked at again.
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
			b := controllertest.NewReleaseBench(t)
			c, ok := b.Client().(client.WithWatch)
			if !ok {
				t.Fatal("the client cannot watch")
			}
			r := &Reconciler{client: interceptor.NewClient(c, interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return test.answer
				},
			})}
			scope := &releaseScope{release: b.Release}
			if now, err := r.stillServes(t.Context(), scope); (now != nil) != test.ok || scope.isLeaving != test.leaving ||
				!errors.Is(err, test.want) {
				t.Errorf("%v, %v, leaving: %t", now, err, scope.isLeaving)
			}
		})
	}
}

// TestReplaceChild holds that the object says why it goes before it goes.
func TestReplaceChild(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
	c := b.Client()
	for range 2 {
		child := &addonsv1.HelmOpRelease{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.Release), child); err != nil {
			t.Fatal(err)
		}
		if err := apiutil.ReplaceChild(t.Context(), c, child, 7); err != nil {
			t.Fatal(err)
		}
	}
	child := &addonsv1.HelmOpRelease{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.Release), child); err != nil {
		t.Fatal(err)
	}
	if number, ok := apiutil.ReplacedBy(child); !ok || number != 7 || child.DeletionTimestamp.IsZero() {
		t.Errorf("replaced by %d, %t, deleted at %s", number, ok, child.DeletionTimestamp)
	}
	child.Name = "gone"
	if err := apiutil.ReplaceChild(t.Context(), c, child, 8); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// TestValuesAreThoseOfTheRevision holds that what is rendered is what the release is made from, as far as that is kept.
func TestValuesAreThoseOfTheRevision(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	r := fateReconciler(b)
	scope := &releaseScope{release: b.Release, helmOp: b.HelmOp}
	for number, want := range map[int64]string{0: "three", 1: "one", 2: "two"} {
		b.Release.Spec.Rollout.Revision = number
		at, err := r.helmOpOf(t.Context(), scope)
		if err != nil || at.Spec.Release.Name != want {
			t.Errorf("revision %d: %v, %v", number, at, err)
		}
	}
	b.Release.Spec.Rollout.Revision = 9
	if _, err := r.helmOpOf(t.Context(), scope); !errors.Is(err, errOutdated) ||
		!strings.Contains(err.Error(), "revision 9") || apierrors.IsNotFound(err) {
		t.Errorf("a revision that is gone: %v", err)
	}
}

// TestReleaseStaysAtItsRevision holds when a release may be made what an earlier revision wanted: not while it is about
// to be told something else.
func TestReleaseStaysAtItsRevision(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*controllertest.ReleaseBench)
		want   bool
	}{
		"it was told nothing else":           {nil, true},
		"the HelmOp is yet to look":          {func(b *controllertest.ReleaseBench) { b.HelmOp.Generation = 4 }, false},
		"it was told, unseen by the cache":   {func(b *controllertest.ReleaseBench) { b.Release.Generation = 2 }, false},
		"it is made from none that is known": {func(b *controllertest.ReleaseBench) { b.Release.Spec.Rollout = nil }, false},
		"the HelmOp has looked at the newest": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Generation, b.HelmOp.Status.ObservedGeneration = 4, 4
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.HelmOp.Generation, b.HelmOp.Status.ObservedGeneration, b.Release.Generation = 3, 3, 1
			r := fateReconciler(b)
			if test.change != nil {
				test.change(b)
			}
			if stays, err := r.staysAtRevision(t.Context(),
				&releaseScope{release: b.Release, helmOp: b.HelmOp}); stays != test.want || err != nil {
				t.Errorf("it stays: %t, %v; want %t", stays, err, test.want)
			}
		})
	}
}

// TestOutdatedError holds what people are told of values that are other ones than a release was told.
func TestOutdatedError(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	scope := &releaseScope{release: b.Release, helmOp: b.HelmOp}
	refers := b.HelmOp.DeepCopy()
	refers.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: apiutil.KindSecret, Name: "s"}}
	wanted := func(number int64) { b.HelmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: number} }
	if err := outdatedError(scope, refers); err != errOutdated { //nolint:errorlint // It must be no other.
		t.Errorf("nothing is known of the rollout: %v", err)
	}
	wanted(1)
	if err := outdatedError(scope, refers); err != errOutdated { //nolint:errorlint // It must be no other.
		t.Errorf("its revision is the one that is wanted: %v", err)
	}
	wanted(2)
	if err := outdatedError(scope, b.HelmOp); err != errOutdated { //nolint:errorlint // It must be no other.
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
	b := controllertest.NewReleaseBench(t)
	type reviews map[string]bool // What the API server permits, by "<service account>/<Secret>".
	for name, test := range map[string]struct {
		change func(*releaseScope)
		grants reviews
		want   bool
	}{
		"its own namespace": {func(s *releaseScope) { s.release.Spec.ClusterRef.Namespace, s.helmOp = "", nil }, nil, true},
		"granted":           {nil, reviews{"installer/one-kubeconfig": true}, true},
		"all are granted":   {nil, reviews{"installer/": true}, true},
		"not granted":       {nil, nil, false},
		"not wanted": {func(s *releaseScope) { s.helmOp.Spec.ClusterNamespaces = nil }, reviews{"installer/": true},
			false},
		"the HelmOp is gone": {func(s *releaseScope) { s.helmOp = nil }, reviews{"installer/": true}, false},
		"granted to another": {func(s *releaseScope) {
			s.helmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName = "other"
		}, reviews{"installer/": true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fateReconciler(b)
			r.recorder, r.watcher = events.NewFakeRecorder(10), forgettingWatcher{forgetting: &forgetting{}}
			r.guard = selection.NewGuard(interceptor.NewClient(b.Client().(client.WithWatch), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
					review := obj.(*authorizationv1.SubjectAccessReview)
					account := strings.TrimPrefix(review.Spec.User, "system:serviceaccount:platform:")
					review.Status.Allowed = review.Spec.ResourceAttributes.Namespace == "team" &&
						test.grants[account+"/"+review.Spec.ResourceAttributes.Name]
					return nil
				},
			}))
			scope := &releaseScope{release: b.Release.DeepCopy(), helmOp: b.HelmOp.DeepCopy()}
			if test.change != nil {
				test.change(scope)
			}
			allowed, err := r.mayAccess(t.Context(), scope)
			if allowed != test.want || err != nil {
				t.Errorf("allowed: %t, %v; want %t", allowed, err, test.want)
			}
			isDenied := len(scope.release.Status.Conditions) == 1 &&
				scope.release.Status.Conditions[0].Reason == addonsv1.ClusterAccessDeniedReason
			if isDenied == test.want {
				t.Errorf("the conditions: %+v", scope.release.Status.Conditions)
			}
		})
	}
}

// An uninstallation destroys what works. It must follow from what the API server says when it begins.
func TestFateOf(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one",
		Labels: map[string]string{"cni": "calico"}}}
	helmOp := func(change func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
		h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "calico", UID: "u",
			Finalizers: []string{addonsv1.HelmOpFinalizer}}}
		h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cni": "calico"}}
		h.Spec.Release = addonsv1.ReleaseTemplate{Name: "calico-{{ .Cluster.metadata.name }}", Namespace: "tigera"}
		if change != nil {
			change(h)
		}
		return h
	}
	now := metav1.Now()
	tests := map[string]struct {
		helmOp  *addonsv1.HelmOp
		cluster *clusterv1.Cluster
		want    deletionIntent
		wantErr bool
	}{
		"deleted by hand":            {helmOp(nil), cluster, intentKeep, false},
		"the HelmOp has another UID": {helmOp(func(h *addonsv1.HelmOp) { h.UID = "other" }), cluster, intentKeep, false},
		"the HelmOp is gone":         {nil, cluster, intentUnknown, false},
		"the HelmOp is being deleted": {helmOp(func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now }), cluster,
			intentUninstall, false},
		"the Cluster is not selected": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["cni"] = "x" }),
			cluster, intentUninstall, false},
		"it is not, by one with another UID": {helmOp(func(h *addonsv1.HelmOp) {
			h.UID, h.Spec.ClusterSelector.MatchLabels["cni"] = "other", "x"
		}), cluster, intentUnknown, false},
		"another name is wanted": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "calico" }), cluster,
			intentReplace, false},
		"another namespace is wanted": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Namespace = "x" }), cluster,
			intentReplace, false},
		"the selector cannot be read": {helmOp(func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector.MatchLabels["cni"] = "-"
		}), cluster, intentUninstall, true},
		"what is wanted cannot be told": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "{{ .Cluster.none }}" }),
			cluster, intentUninstall, true},
		"the Cluster cannot be read": {helmOp(nil), nil, intentUninstall, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder := fake.NewClientBuilder().WithScheme(scheme)
			for _, obj := range []client.Object{tc.helmOp, tc.cluster} {
				switch o := obj.(type) {
				case *addonsv1.HelmOp:
					if o != nil {
						builder.WithObjects(o)
					}
				case *clusterv1.Cluster:
					if o != nil {
						builder.WithObjects(o.DeepCopy())
					}
				}
			}
			c := builder.Build()
			r := &Reconciler{live: c, renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c))}
			release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "child"}}
			release.Spec.ClusterRef.Name = "one"
			release.Spec.Release = addonsv1.ReleaseIdentity{Name: "calico-one", Namespace: "tigera"}
			release.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(helmOp(nil),
				addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}
			got, err := r.deletionIntentOf(t.Context(), release)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("fateOf = %v, %v; want %v, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}
