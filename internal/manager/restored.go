// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// restoreInterval is how often the manager checks whether the management cluster was restored.
	restoreInterval = time.Minute
	// restoreTimeout bounds the request of a check.
	restoreTimeout = 30 * time.Second
)

// restoreCheck ends the manager after a restore of the management cluster's etcd: then the resourceVersions of the
// cluster are lower than the resourceVersions in the manager's cache. The caches would stay outdated without an error:
// while the API server refuses connections, client-go repeats its watches from the last resourceVersion. The restored
// API server accepts a watch from a future resourceVersion, and sends no event until it has reached this version. The
// next process lists all objects.
//
// All kinds of one etcd share the resourceVersions, so the check reads one kind. The kind is HelmOp, because each
// manager has a cache of HelmOps.
type restoreCheck struct {
	// cached returns the resourceVersion up to which the cache of HelmOps has all changes; empty before its first list.
	cached func() string
	// live reads from the API server. namespace is the only namespace that the manager may read; empty for all.
	live      client.Reader
	namespace string
	// elected is closed when the process becomes the leader. From then on, outdated caches would do harm.
	elected <-chan struct{}
}

// newInformer returns an informer for a cache, and follows the informer of HelmOps. It must be called for HelmOps
// before Start.
func (r *restoreCheck) newInformer(
	source toolscache.ListerWatcher,
	example runtime.Object,
	resync time.Duration,
	indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	informer := toolscache.NewSharedIndexInformer(source, example, resync, indexers)
	if _, ok := example.(*addonsv1.HelmOp); ok {
		r.cached = informer.LastSyncResourceVersion
	}
	return informer
}

// Start checks once a minute, and at the election of this process. It returns an error if the management cluster was
// restored.
func (r *restoreCheck) Start(ctx context.Context) error {
	ticker := time.NewTicker(restoreInterval)
	defer ticker.Stop()
	elected := r.elected
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-elected:
			elected = nil
		case <-ticker.C:
		}
		if err := r.check(ctx); err != nil {
			return err
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. It is false because a replica that is not the leader
// has caches, too.
func (*restoreCheck) NeedLeaderElection() bool { return false }

// check returns an error if the management cluster was restored. If the API server does not answer, the next check
// shows it.
func (r *restoreCheck) check(ctx context.Context) error {
	// The cache must be read first, because it may continue during the request.
	cached := r.cached()
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	helmOps := &metav1.PartialObjectMetadataList{}
	helmOps.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOpList"))
	// The request names no resourceVersion. So the answer is at least as new as all that any API server of the cluster
	// has sent before.
	if err := r.live.List(ctx, helmOps, client.Limit(1), client.InNamespace(r.namespace)); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Cannot check whether the management cluster was restored", "reason", err.Error())
		return nil
	}
	// The comparison fails if one of the resourceVersions is no number.
	if order, err := resourceversion.CompareResourceVersion(helmOps.ResourceVersion, cached); err == nil && order < 0 {
		return fmt.Errorf("the management cluster was restored from a backup: its resourceVersion is %s, and the caches of "+
			"the manager are at %s; restarting to read all objects again", helmOps.ResourceVersion, cached)
	}
	return nil
}
