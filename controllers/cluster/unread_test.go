// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
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
