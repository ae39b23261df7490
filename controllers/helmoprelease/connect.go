// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// unreachableRetry is how often to try again to connect to a cluster that did not answer. When the cluster
	// answers, its link enqueues the release sooner; this is for a link that has not seen the failure.
	unreachableRetry = 15 * time.Second

	// downRetry is the same for a cluster whose link has seen the failure.
	downRetry = 2 * time.Minute

	// conflictRetry is how often to check whether a conflict is over.
	conflictRetry = 30 * time.Second

	// lookAgain is the delay of a pass that follows an action at once, to see its outcome.
	lookAgain = time.Millisecond
)

// Engine observes releases in workload clusters and carries out decisions.
type Engine interface {
	Observe(ctx context.Context, target model.Target, namespace, name string) (model.Observation, error)
	Act(ctx context.Context, target model.Target, decision decide.Decision, desired model.Desired,
		options model.Options, chart *bundle.Chart, values map[string]any) (helmclient.Result, error)
	Manifest(ctx context.Context, target model.Target, namespace, name string, revision int) ([]*unstructured.Unstructured,
		error)
	Access(target model.Target) (*helmclient.Access, error)
	TakeOver(ctx context.Context, target model.Target, desired model.Desired, observation model.Observation) error
	Forget(key string)
}

// connect returns the connection to the cluster of a release; ok is false if there is none.
func (r *Reconciler) connect(ctx context.Context, release *addonsv1.HelmOpRelease) (target model.Target, ok bool) {
	key := apiutil.ClusterKey(release)
	restConfig, err := r.clusters.GetRESTConfig(ctx, key)
	if state := r.clusters.State(key); err == nil && state.IsUnreachable() {
		// Another request would fail the same way, later. The watches stay: the cluster may answer in a moment.
		report.Unreachable(release, noConnection(release, state.Cause))
		return model.Target{}, false
	}
	if err == nil {
		return model.Target{Key: key.String(), Config: restConfig, Impersonate: releasespec.Impersonated(release)}, true
	}
	r.watcher.Disconnect(key.String())
	if err := r.checkKubeconfig(ctx, key); err != nil {
		report.SetCondition(release, addonsv1.ClusterReachableCondition, report.False, addonsv1.KubeconfigRefusedReason,
			err.Error())
		report.SetNotReady(release, addonsv1.KubeconfigRefusedReason, err.Error())
		return model.Target{}, false
	}
	if errors.Is(err, clusterlink.ErrNotTried) {
		return model.Target{}, false
	}
	report.Unreachable(release, noConnection(release, r.clusters.State(key).Cause))
	return model.Target{}, false
}

// noConnection is the message for a Cluster that does not answer, and what to do. The message does not change while
// that lasts: each change is a write.
func noConnection(release *addonsv1.HelmOpRelease, cause clusterlink.Cause) string {
	if cause != "" {
		return "there is no connection to the API server of the Cluster: " + string(cause) + "; correct the Secret " +
			apiutil.ClusterTitle(release) + "-kubeconfig; the release goes on when the API server answers"
	}
	return "there is no connection to the API server of the Cluster: see that it runs, that the Secret " +
		apiutil.ClusterTitle(release) +
		"-kubeconfig is valid, that the manager may read it and that nothing blocks the way; the release goes on when it " +
		"answers"
}

// reconnectRetry is when to reconcile a release without a connection again.
func reconnectRetry(release *addonsv1.HelmOpRelease, state clusterlink.State) time.Duration {
	if state.Failures > 0 {
		return queue.Spread(downRetry, release)
	}
	return queue.Spread(unreachableRetry, release)
}

// checkKubeconfig returns why the kubeconfig of a Cluster must not be used; nil if it may, or if it cannot be read.
func (r *Reconciler) checkKubeconfig(ctx context.Context, cluster client.ObjectKey) error {
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	if err := r.kubeconfigs.Get(ctx, key, &corev1.Secret{}); errors.Is(err, clusterview.ErrKubeconfigRefused) {
		return err
	}
	return nil
}

// firstServed is when the control plane of a Cluster became initialized. ok is false if that was before the HelmOp
// was created: then the time until the first deployment says nothing about HelmOp.
func firstServed(cluster *clusterv1.Cluster, helmOp *addonsv1.HelmOp) (time.Time, bool) {
	since := conditions.GetLastTransitionTime(cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	if since == nil || helmOp == nil || since.Time.Before(helmOp.CreationTimestamp.Time) {
		return time.Time{}, false
	}
	return since.Time, true
}
