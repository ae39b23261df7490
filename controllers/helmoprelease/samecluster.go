// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// checkSameCluster ends the pass if the kubeconfig leads to the cluster of another Cluster, and the release there
// belongs to this other Cluster. The owner on Helm's records names only the HelmOp. So without this check, two
// HelmOpReleases of the HelmOp would upgrade the release in turn, each with the values of its own Cluster.
func (r *Reconciler) checkSameCluster(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	conflict, err := r.sameCluster(ctx, p.release, p.observation)
	switch {
	case errors.Is(err, clusterlink.ErrNotTried):
		return after(reconnectRetry(p.release, clusterlink.State{})), nil
	case err != nil || conflict == "":
		return nil, err
	}
	r.unfollow(p.release)
	p.release.Status.State = string(model.StateForeign)
	r.reportConflict(p, attempts.VerbUpgrade, addonsv1.ReleaseConflictReason, conflict)
	return after(conflictRetry), nil
}

// sameCluster returns a message if the records were made for the HelmOpRelease of another Cluster with the same API
// server. Otherwise, it returns an empty text. The error wraps clusterlink.ErrNotTried if the API server of the other
// Cluster is not known yet.
func (r *Reconciler) sameCluster(ctx context.Context, release *addonsv1.HelmOpRelease, observation model.Observation,
) (string, error) {
	uid := observation.ReleaseUID()
	if uid == "" || uid == string(release.UID) {
		return "", nil
	}
	// After a move, a restore or a re-creation, no HelmOpRelease has the UID any more.
	others := &addonsv1.HelmOpReleaseList{}
	if err := r.client.List(ctx, others, client.InNamespace(release.Namespace),
		client.MatchingFields{apiutil.UIDIndex: uid}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("looking for the HelmOpRelease with the UID %s: %w", uid, err)
	}
	for i := range others.Items {
		other := &others.Items[i]
		if apiutil.ClusterKey(other) == apiutil.ClusterKey(release) {
			continue
		}
		own, err := r.clusters.GetRESTConfig(ctx, apiutil.ClusterKey(release))
		if err != nil {
			return "", err
		}
		config, err := r.clusters.GetRESTConfig(ctx, apiutil.ClusterKey(other))
		switch {
		case errors.Is(err, clusterlink.ErrNotTried):
			return "", err
		case err != nil || !isSameServer(own, config):
			// A copy of another cluster, for example of its etcd, has the records of this cluster. The other Cluster may be
			// lost.
			continue
		}
		cluster, otherCluster := apiutil.ClusterTitle(release), apiutil.ClusterTitle(other)
		return fmt.Sprintf("The release belongs to HelmOpRelease %s. The kubeconfigs of the Clusters %s and %s lead to the "+
			"same API server, %s: correct the Secret with the wrong kubeconfig, %s-kubeconfig or %s-kubeconfig",
			other.Name, cluster, otherCluster, own.Host, cluster, otherCluster), nil
	}
	return "", nil
}

// isSameServer reports whether two configs lead to the same API server.
func isSameServer(a, b *rest.Config) bool {
	return a.Host == b.Host && a.ServerName == b.ServerName && bytes.Equal(a.CAData, b.CAData)
}

// orphanOfSameCluster orphans a release under deletion if the release in the cluster belongs to another Cluster.
func (r *Reconciler) orphanOfSameCluster(ctx context.Context, scope *releaseScope, observation model.Observation,
) (*ctrl.Result, error) {
	conflict, err := r.sameCluster(ctx, scope.release, observation)
	switch {
	case errors.Is(err, clusterlink.ErrNotTried):
		return after(reconnectRetry(scope.release, clusterlink.State{})), nil
	case err != nil || conflict == "":
		return nil, err
	}
	return end(r.orphan(scope, corev1.EventTypeWarning, conflict), nil)
}
