// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

func benchReconciler(b *controllertest.ReleaseBench) *Reconciler {
	c := b.Client()
	renderer := render.New(references.NewReader(c, c), clusterview.NewReader(c, c))
	return &Reconciler{client: c, live: c, renderer: renderer, guard: selection.NewGuard(c),
		intents: deletionintent.Reader{Live: c, Renderer: renderer},
		gate:    dependencies.Gate{Client: c, Live: c, Now: time.Now}}
}

// TestPassWithoutConnection makes passes that end before HelmOp connects to the Cluster. The Cluster must not count as
// unreachable, although it was before. While a release waits for its deletion, the condition stays for the plan.
func TestPassWithoutConnection(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		change func(*controllertest.ReleaseBench, *releaseScope)
		kept   bool
		want   fleetview.State
	}{
		"the Cluster does not exist": {change: func(_ *controllertest.ReleaseBench, s *releaseScope) { s.cluster = nil },
			want: fleetview.StateWaiting},
		"the Cluster is under deletion": {change: func(b *controllertest.ReleaseBench, _ *releaseScope) {
			b.Cluster.DeletionTimestamp = &now
		}, want: fleetview.StateProgressing},
		"paused": {change: func(b *controllertest.ReleaseBench, _ *releaseScope) { b.Cluster.Spec.Paused = new(true) },
			kept: true, want: fleetview.StatePaused},
		"another shard": {change: func(_ *controllertest.ReleaseBench, s *releaseScope) { s.otherShard = "of shard b" },
			want: fleetview.StateWaiting},
		"no owner": {change: func(b *controllertest.ReleaseBench, _ *releaseScope) { b.Release.OwnerReferences = nil },
			want: fleetview.StateFailed},
		"the HelmOp is under deletion": {change: func(b *controllertest.ReleaseBench, _ *releaseScope) {
			b.HelmOp.DeletionTimestamp = &now
		}, kept: true, want: fleetview.StateProgressing},
		"installed once": {change: func(b *controllertest.ReleaseBench, _ *releaseScope) {
			b.Release.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
			b.Release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: "true"}
		}, want: fleetview.StateReady},
		"no control plane": {change: func(b *controllertest.ReleaseBench, _ *releaseScope) {
			b.Cluster.Status.Initialization.ControlPlaneInitialized = nil
		}, want: fleetview.StateWaiting},
		"no access": {change: func(b *controllertest.ReleaseBench, _ *releaseScope) {
			b.HelmOp.Spec.ClusterNamespaces = nil
		}, want: fleetview.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			scope := &releaseScope{release: b.Release, helmOp: b.HelmOp, cluster: b.Cluster}
			report.Unreachable(b.Release, "no answer")
			r := benchReconciler(b)
			if err := r.client.Create(t.Context(), controllertest.KubeSystem()); err != nil {
				t.Fatal(err)
			}
			tc.change(b, scope)
			r.recorder, r.watcher = events.NewFakeRecorder(5), forgettingWatcher{forgetting: &forgetting{}}
			if _, err := r.reconcileNormal(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			if kept := conditions.Has(b.Release, addonsv1.ClusterReachableCondition); kept != tc.kept ||
				apiutil.ReachabilityOf(b.Release) != nil {
				t.Errorf("conditions %+v", b.Release.Status.Conditions)
			}
			if got, _ := fleetview.StateOf(b.Release, 0); got != tc.want {
				t.Errorf("the state is %s, want %s", got, tc.want)
			}
		})
	}
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
