// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// TestUnreadableControlPlane checks that a control plane that cannot be read is read again with growing delays up to a
// limit, and is logged once.
func TestUnreadableControlPlane(t *testing.T) {
	t.Parallel()
	logged := 0
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(string, string) { logged++ }, funcr.Options{}))
	r, scope := &Reconciler{}, &lifeScope{object: apiutil.NewCluster()}
	unread := fmt.Errorf("%w: %w", render.ErrObjectRead, errors.New("no matches for kind"))
	for _, about := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if wait := r.controlPlaneFailed(ctx, scope, unread); (wait - about).Abs() > about/4 {
			t.Errorf("the next read is after %s, want %s", wait, about)
		}
	}
	for range 10 {
		if wait := r.controlPlaneFailed(ctx, scope, unread); wait > requeue.ObjectReadRetry {
			t.Errorf("after many failures, the next read is after %s, want at most %s", wait, requeue.ObjectReadRetry)
		}
	}
	pending := fmt.Errorf("%w: %w", render.ErrObjectRead, kindcache.ErrPending)
	if wait := r.controlPlaneFailed(ctx, scope, pending); wait != clusterview.KindRetry {
		t.Errorf("a kind that is being read is read again after %s", wait)
	}
	if logged != 1 {
		t.Errorf("the failure is logged %d times", logged)
	}
}

// TestFailedPassEndsHoldInTime checks Clusters with a hold that ends in a minute, while an API server refuses another
// request of each pass. The pass must be repeated with growing delays, and at the end of the hold at the latest.
func TestFailedPassEndsHoldInTime(t *testing.T) {
	t.Parallel()
	const timeout = 6 * time.Minute // The hold began 5 minutes ago.
	upgrade := &addonsv1.BeforeClusterUpgrade{Timeout: metav1.Duration{Duration: timeout}}
	upgraded := controllertest.HoldingRelease(0)
	upgraded.Spec.BeforeClusterUpgrade = upgrade
	hold := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(controllertest.HoldingHelmOp()))
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		release *addonsv1.HelmOpRelease
		helmOp  func(*addonsv1.HelmOp)
	}{
		"a deletion": {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
			release: controllertest.HoldingRelease(timeout), helmOp: func(*addonsv1.HelmOp) {}},
		"an upgrade": {cluster: upgradingCluster(map[string]string{hold: "v1.36.0 since " + controllertest.HeldSince}),
			release: upgraded, helmOp: func(h *addonsv1.HelmOp) {
				h.Spec.ClusterCondition, h.Spec.BeforeClusterUpgrade = "Addons", upgrade
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lifeReconciler(t, tc.cluster, tc.release)
			helmOp := &addonsv1.HelmOp{}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(controllertest.HoldingHelmOp()), helmOp); err != nil {
				t.Fatal(err)
			}
			tc.helmOp(helmOp)
			if err := r.client.Update(t.Context(), helmOp); err != nil {
				t.Fatal(err)
			}
			refused := errors.New("refused")
			r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refused },
				SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration,
					...client.SubResourceApplyOption) error {
					return refused
				},
			})
			logged := 0
			ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(string, string) { logged++ }, funcr.Options{}))
			pass := func(about time.Duration) {
				t.Helper()
				result, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(tc.cluster)})
				if got := result.RequeueAfter; err != nil || got > time.Minute || (got-about).Abs() > about/4 {
					t.Fatalf("repeated after %s, err = %v; want about %s", got, err, about)
				}
			}
			for _, about := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
				pass(about)
			}
			for range 5 {
				_, _ = r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(tc.cluster)})
			}
			pass(time.Minute)
			if logged != 1 {
				t.Errorf("the failure is logged %d times", logged)
			}
			refused = nil
			pass(time.Minute)
			refused = errors.New("refused again")
			pass(time.Second)
		})
	}
}
