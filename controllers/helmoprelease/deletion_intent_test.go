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

func intentReconciler(b *controllertest.ReleaseBench) *Reconciler {
	c := b.Client()
	return &Reconciler{client: c, live: c, renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c)),
		guard: selection.NewGuard(c)}
}

// TestDeletionIntentByRevision checks that the assigned HelmOp revision decides whether a release is kept, unless an
// annotation names a revision that replaces it. During and after a rollout, both revisions may differ from the current
// spec of the HelmOp.
func TestDeletionIntentByRevision(t *testing.T) {
	t.Parallel()
	replaced := func(number string) func(*controllertest.ReleaseBench) {
		return func(b *controllertest.ReleaseBench) {
			b.Release.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: number}
		}
	}
	// given returns a release that is replaced by a revision in a phase.
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
		"an earlier revision": {nil, intentKeep},
		"a revision that does not exist": {func(b *controllertest.ReleaseBench) { b.Revisions = b.Revisions[1:] },
			intentKeep},
		"no known revision": {func(b *controllertest.ReleaseBench) { b.Release.Spec.Rollout = nil },
			intentReplace},
		"replaced by another release":                  {replaced("2"), intentReplace},
		"replaced by a revision with the same release": {replaced("1"), intentKeep},
		"replaced by a revision that does not exist":   {replaced("9"), intentReplace},
		"an annotation that is not a number":           {replaced("x"), intentKeep},
		"replaced by a revision that was rolled back":  {given("2", addonsv1.RolloutPhaseRolledBack), intentKeep},
		"replaced by a revision that was aborted":      {given("2", addonsv1.RolloutPhaseAborted), intentKeep},
		"replaced by a revision that is rolled out":    {given("2", addonsv1.RolloutPhaseComplete), intentReplace},
		"replaced by a revision that was superseded":   {given("2", addonsv1.RolloutPhaseSuperseded), intentReplace},
		"replaced by a revision that was superseded by the former spec": {func(b *controllertest.ReleaseBench) {
			given("2", addonsv1.RolloutPhaseSuperseded)(b)
			b.HelmOp.Spec.Release.Name = b.Release.Spec.Release.Name
		}, intentKeep},
		"the namespace is not selected": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "b"}
		}, intentUninstall},
		"the namespace is selected": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
		}, intentKeep},
		"clusterNamespaces is not set": {func(b *controllertest.ReleaseBench) { b.HelmOp.Spec.ClusterNamespaces = nil },
			intentUninstall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			if test.change != nil {
				test.change(b)
			}
			if got, err := intentReconciler(b).deletionIntentOf(t.Context(), b.Release); got != test.want || err != nil {
				t.Errorf("intent %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// TestNoActionForHelmOpUnderDeletion checks that no action begins for a release whose HelmOp is under deletion,
// although the release itself is not deleted yet: a slow hook would delay the uninstallation.
func TestNoActionForHelmOpUnderDeletion(t *testing.T) {
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
	// The Reconciler has no connection and no engine, so their use fails.
	result, err := (&Reconciler{}).reconcileNormal(t.Context(), scope)
	if err != nil || !result.IsZero() {
		t.Errorf("%v, %v", result, err)
	}
	ready := conditions.Get(b.Release, addonsv1.ReadyCondition)
	if ready == nil || ready.Reason != addonsv1.DeletingReason || len(b.Release.Finalizers) > 0 {
		t.Errorf("Ready %v, finalizers %v", ready, b.Release.Finalizers)
	}
}

// TestStillServes checks that a release that is not in the cache counts as a release of another shard, and that a
// failed read returns an error.
func TestStillServes(t *testing.T) {
	t.Parallel()
	unread := errors.New("unread")
	for name, test := range map[string]struct {
		answer         error
		ok, otherShard bool
		want           error
	}{
		"exists":         {ok: true},
		"does not exist": {answer: apierrors.NewNotFound(schema.GroupResource{}, "child"), otherShard: true},
		"cannot be read": {answer: unread, want: unread},
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
			if now, err := r.stillServes(t.Context(), scope); (now != nil) != test.ok ||
				scope.isOfOtherShard != test.otherShard ||
				!errors.Is(err, test.want) {
				t.Errorf("%v, %v, of another shard: %t", now, err, scope.isOfOtherShard)
			}
		})
	}
}

// TestReplaceChild checks that the annotation with the replacing revision is written before the deletion.
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
		t.Errorf("a HelmOpRelease that does not exist: %v", err)
	}
}

// TestHelmOpAtRevision checks that the HelmOp has the spec of the assigned revision.
func TestHelmOpAtRevision(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	r := intentReconciler(b)
	scope := &releaseScope{release: b.Release, helmOp: b.HelmOp}
	for number, want := range map[int64]string{0: "three", 1: "one", 2: "two"} {
		b.Release.Spec.Rollout.Revision = number
		helmOp, err := r.helmOpAtRevision(t.Context(), scope)
		if err != nil || helmOp.Spec.Release.Name != want {
			t.Errorf("HelmOp revision %d: %v, %v", number, helmOp, err)
		}
	}
	b.Release.Spec.Rollout.Revision = 9
	if _, err := r.helmOpAtRevision(t.Context(), scope); !errors.Is(err, errOutdated) ||
		!strings.Contains(err.Error(), "HelmOp revision 9") || apierrors.IsNotFound(err) {
		t.Errorf("a revision that does not exist: %v", err)
	}
}

// TestStaysAtRevision checks when a release may be rendered from its assigned revision: not while the HelmOp is about
// to assign another spec.
func TestStaysAtRevision(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*controllertest.ReleaseBench)
		want   bool
	}{
		"no other spec assigned":           {nil, true},
		"the HelmOp is not reconciled yet": {func(b *controllertest.ReleaseBench) { b.HelmOp.Generation = 4 }, false},
		"assigned, but not cached":         {func(b *controllertest.ReleaseBench) { b.Release.Generation = 2 }, false},
		"no known revision":                {func(b *controllertest.ReleaseBench) { b.Release.Spec.Rollout = nil }, false},
		"the HelmOp is reconciled": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Generation, b.HelmOp.Status.ObservedGeneration = 4, 4
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.HelmOp.Generation, b.HelmOp.Status.ObservedGeneration, b.Release.Generation = 3, 3, 1
			r := intentReconciler(b)
			if test.change != nil {
				test.change(b)
			}
			if stays, err := r.staysAtRevision(t.Context(),
				&releaseScope{release: b.Release, helmOp: b.HelmOp}); stays != test.want || err != nil {
				t.Errorf("stays: %t, %v; want %t", stays, err, test.want)
			}
		})
	}
}

// TestOutdatedError checks the error for values whose digests differ from the assigned digests.
func TestOutdatedError(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	scope := &releaseScope{release: b.Release, helmOp: b.HelmOp}
	refers := b.HelmOp.DeepCopy()
	refers.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: apiutil.KindSecret, Name: "s"}}
	current := func(number int64) { b.HelmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: number} }
	if err := outdatedError(scope, refers); err != errOutdated { //nolint:errorlint // It must be this very error.
		t.Errorf("the rollout is not known: %v", err)
	}
	current(1)
	if err := outdatedError(scope, refers); err != errOutdated { //nolint:errorlint // It must be this very error.
		t.Errorf("its revision is the current one: %v", err)
	}
	current(2)
	if err := outdatedError(scope, b.HelmOp); err != errOutdated { //nolint:errorlint // It must be this very error.
		t.Errorf("it has no references: %v", err)
	}
	err := outdatedError(scope, refers)
	if !errors.Is(err, errOutdated) || !strings.Contains(err.Error(), "HelmOp revision 1 cannot be rendered") {
		t.Errorf("another revision is current: %v", err)
	}
}

// TestMayAccess checks which HelmOps may access a Cluster of another namespace.
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
		"not set": {func(s *releaseScope) { s.helmOp.Spec.ClusterNamespaces = nil }, reviews{"installer/": true},
			false},
		"the HelmOp is gone": {func(s *releaseScope) { s.helmOp = nil }, reviews{"installer/": true}, false},
		"granted to another": {func(s *releaseScope) {
			s.helmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName = "other"
		}, reviews{"installer/": true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := intentReconciler(b)
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

// TestDeletionIntentOf checks why a HelmOpRelease is under deletion according to the API server. An uninstallation must
// not depend on a stale cache.
func TestDeletionIntentOf(t *testing.T) {
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
		"deleted by a user":          {helmOp(nil), cluster, intentKeep, false},
		"the HelmOp has another UID": {helmOp(func(h *addonsv1.HelmOp) { h.UID = "other" }), cluster, intentKeep, false},
		"the HelmOp is gone":         {nil, cluster, intentUnknown, false},
		"the HelmOp is being deleted": {helmOp(func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now }), cluster,
			intentUninstall, false},
		"the Cluster is not selected": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["cni"] = "x" }),
			cluster, intentUninstall, false},
		"the Cluster is not selected by a HelmOp with another UID": {helmOp(func(h *addonsv1.HelmOp) {
			h.UID, h.Spec.ClusterSelector.MatchLabels["cni"] = "other", "x"
		}), cluster, intentUnknown, false},
		"another name is desired": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "calico" }), cluster,
			intentReplace, false},
		"another namespace is desired": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Namespace = "x" }), cluster,
			intentReplace, false},
		"the selector is not valid": {helmOp(func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector.MatchLabels["cni"] = "-"
		}), cluster, intentUninstall, true},
		"the name cannot be rendered": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "{{ .Cluster.none }}" }),
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
				t.Errorf("deletionIntentOf = %v, %v; want %v, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}
