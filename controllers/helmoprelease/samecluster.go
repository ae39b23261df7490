// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// checkSameCluster ends the pass if the kubeconfig leads to the cluster of another Cluster, and the release there
// belongs to this other Cluster. The owner on Helm's records names only the HelmOp. So without this check, two
// HelmOpReleases of the HelmOp would upgrade the release in turn, each with the values of its own Cluster.
func (r *Reconciler) checkSameCluster(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	conflict, err := r.sameCluster(ctx, p.release, p.observation)
	if err != nil || conflict == "" {
		return nil, err
	}
	r.unfollow(p.release)
	r.memoryOf(p.release).Preparation.PauseOwn(&p.release.Status)
	conditions.Delete(p.release, addonsv1.StalledCondition)
	p.release.Status.State, p.release.Status.NextTryAt = string(model.StateForeign), metav1.Time{}
	r.reportConflict(p, attempts.VerbUpgrade, addonsv1.ReleaseConflictReason, conflict)
	return after(conflictRetry), nil
}

// orphanOfSameCluster orphans a release under deletion if the release in the cluster belongs to another Cluster.
func (r *Reconciler) orphanOfSameCluster(ctx context.Context, scope *releaseScope, observation model.Observation,
) (*ctrl.Result, error) {
	conflict, err := r.sameCluster(ctx, scope.release, observation)
	if err != nil || conflict == "" {
		return nil, err
	}
	return end(r.orphan(scope, corev1.EventTypeWarning, conflict), nil)
}

// sameCluster returns a message if the records were made for the HelmOpRelease of another Cluster whose kubeconfig
// leads to the same API server. Otherwise, it returns an empty text.
func (r *Reconciler) sameCluster(ctx context.Context, release *addonsv1.HelmOpRelease, observation model.Observation,
) (string, error) {
	uid := observation.ReleaseUID()
	if uid == "" || uid == string(release.UID) {
		return "", nil
	}
	// After a move, a restore or a re-creation, no HelmOpRelease has the UID any more.
	other, err := apiutil.ReleaseWithUID(ctx, r.client, release.Namespace, types.UID(uid))
	if err != nil || other == nil || apiutil.ClusterKey(other) == apiutil.ClusterKey(release) {
		return "", err
	}
	cluster, otherCluster := apiutil.ClusterTitle(release), apiutil.ClusterTitle(other)
	own, err := r.serverOf(ctx, apiutil.ClusterKey(release))
	if err != nil {
		return "", err
	}
	server, err := r.serverOf(ctx, apiutil.ClusterKey(other))
	switch {
	case err != nil:
		return "", err
	case own == nil || server == nil:
		return fmt.Sprintf("The release belongs to HelmOpRelease %s. HelmOp cannot compare the kubeconfigs of the Clusters "+
			"%s and %s: correct the Secrets %[2]s-kubeconfig and %[3]s-kubeconfig", other.Name, cluster, otherCluster), nil
	case !isSameServer(own, server):
		// A copy of another cluster, for example of its etcd, has the records of this cluster.
		return "", nil
	}
	return fmt.Sprintf("The release belongs to HelmOpRelease %s. The kubeconfigs of the Clusters %s and %s lead to the "+
		"same API server, %s: correct the Secret with the wrong kubeconfig, %[2]s-kubeconfig or %[3]s-kubeconfig",
		other.Name, cluster, otherCluster, own.Server), nil
}

// serverOf returns how the kubeconfig of a Cluster reaches the API server. The result is nil if the kubeconfig is
// missing, malformed or refused. The connection to the Cluster does not matter: the other Cluster may be down.
func (r *Reconciler) serverOf(ctx context.Context, cluster client.ObjectKey) (*clientcmdapi.Cluster, error) {
	stored := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	switch err := r.kubeconfigs.Get(ctx, key, stored); {
	case apierrors.IsNotFound(err), errors.Is(err, clusterview.ErrKubeconfigRefused):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	config, err := clientcmd.Load(stored.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, nil //nolint:nilerr // The error may quote credentials. The link to the Cluster reports it.
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return nil, nil
	}
	return config.Clusters[current.Cluster], nil
}

// isSameServer reports whether two kubeconfigs lead to the same API server.
func isSameServer(a, b *clientcmdapi.Cluster) bool {
	return strings.TrimSuffix(a.Server, "/") == strings.TrimSuffix(b.Server, "/") && a.TLSServerName == b.TLSServerName &&
		a.ProxyURL == b.ProxyURL && bytes.Equal(a.CertificateAuthorityData, b.CertificateAuthorityData)
}
