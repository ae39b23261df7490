// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

func benchReconciler(b *controllertest.ReleaseBench) *Reconciler {
	c := b.Client()
	renderer := render.New(references.NewReader(c, c), clusterview.NewReader(c))
	return &Reconciler{client: c, live: c, renderer: renderer, guard: selection.NewGuard(c),
		intents: deletionintent.Reader{Live: c, Renderer: renderer},
		gate:    dependencies.Gate{Client: c, Live: c, Now: time.Now}}
}

// TestStillServes checks that a release that is not in the cache counts as a release of another shard. A failed read
// must return an error.
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

// TestMayAccess checks which HelmOps may access a Cluster of another namespace.
func TestMayAccess(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	type reviews map[string]bool // the answers of the API server, by "<service account>/<Secret>"
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
			r := benchReconciler(b)
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
