// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// cachesSynced is a runnable that is closed when it starts. controller-runtime starts such runnables when the caches
// are synced, and before it acquires the lease.
type cachesSynced chan struct{}

// Start implements the Runnable of controller-runtime.
func (c cachesSynced) Start(context.Context) error {
	close(c)
	return nil
}

// NeedLeaderElection makes the runnable start without the lease.
func (cachesSynced) NeedLeaderElection() bool { return false }

// start runs the manager until ctx ends or it fails. controller-runtime does not return while its caches wait for their
// first list, for example because a permission is missing. At that time, the manager has no lease and runs no
// reconciliation, so start returns without it. start also returns when the manager loses its lease while it stops.
// Without leader election, lease is nil.
func start(ctx context.Context, mgr ctrl.Manager, lease *leaderLease) error {
	synced := make(cachesSynced)
	if err := mgr.Add(synced); err != nil {
		return fmt.Errorf("setting up the end of the manager: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-synced:
		return lease.await(ended)
	default:
		klog.FromContext(ctx).Info("Stopping before the caches of the management cluster are synced")
		return nil
	}
}
