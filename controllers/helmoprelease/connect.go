// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

const (
	// downRetry is the delay for a cluster whose link has detected that the cluster does not respond.
	downRetry = 2 * time.Minute

	// conflictRetry is the delay between two checks of a conflict.
	conflictRetry = 30 * time.Second

	// requeueAtOnce is the delay of a pass that observes the result of an action.
	requeueAtOnce = time.Millisecond
)

// Engine observes releases in workload clusters and carries out decisions.
type Engine interface {
	upgraderun.Engine
	Observe(ctx context.Context, target model.Target, namespace, name string) (model.Observation, error)
	ObserveNamespace(ctx context.Context, target model.Target, namespace, name string) (map[string]model.Observation,
		error)
	ObserveCluster(ctx context.Context, target model.Target, namespace, name string) (model.Observation, map[string]bool,
		error)
	Act(ctx context.Context, target model.Target, decision decide.Decision, desired model.Desired,
		options model.Options, chart *bundle.Chart, values map[string]any) (helmclient.Result, error)
	Manifest(ctx context.Context, target model.Target, namespace, name string, revision int, keep bool,
		use func([]*unstructured.Unstructured)) error
	Access(target model.Target) (*model.Access, error)
	Lock(target model.Target, desired model.Desired) (unlock func(), err error)
	MayBeNew(target model.Target, desired model.Desired, options model.Options) bool
	Confirm(ctx context.Context, target model.Target, desired model.Desired, observed model.Record) error
	TakeOver(ctx context.Context, target model.Target, desired model.Desired, observation model.Observation) error
	Saw(cluster, namespace, name string, versions map[inventory.Ref]model.ObjectVersion)
	Forget(key string)
}

// connect returns the connection to the cluster of a release. If ok is false, there is no connection. connect has then
// reported the cause, unless the first connection is being tried. The Cluster is nil if it does not exist.
func (r *Reconciler) connect(ctx context.Context, release *addonsv1.HelmOpRelease,
	cluster *clusterv1.Cluster,
) (target model.Target, ok bool) {
	key := apiutil.ClusterKey(release)
	restConfig, err := r.clusters.GetRESTConfig(ctx, key)
	if state := r.clusters.State(key); err == nil && state.IsUnreachable() {
		// Another request would fail in the same way, only later. The watches stay, because the cluster may respond
		// again soon. The records are read then: the cluster may have been restored from a backup.
		r.readAgain(release)
		report.Unreachable(release, noConnection(release, cluster, state.Cause))
		return model.Target{}, false
	}
	if err == nil {
		return model.Target{Key: key.String(), Config: restConfig, Impersonate: releasespec.Impersonated(release)}, true
	}
	r.watcher.Disconnect(key.String())
	isTried := !errors.Is(err, clusterlink.ErrNotTried)
	if !isTried && cluster != nil && !ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false) {
		// There is no attempt until then, and no other step reports this.
		report.Unreachable(release, "HelmOp does not connect to the Cluster before its infrastructure is provisioned: check "+
			"the object to which spec.infrastructureRef of the Cluster refers")
		return model.Target{}, false
	}
	if !isTried && release.DeletionTimestamp.IsZero() {
		// The first attempt checks the kubeconfig. After a start, a check in each pass would parse a thousand kubeconfigs
		// again before the links exist.
		return model.Target{}, false
	}
	if err := r.checkKubeconfig(ctx, key); err != nil {
		message := err.Error()
		if !release.DeletionTimestamp.IsZero() {
			message += report.OrphanHint
		}
		report.SetCondition(release, addonsv1.ClusterReachableCondition, report.False, addonsv1.KubeconfigRefusedReason,
			message)
		report.SetNotReady(release, addonsv1.KubeconfigRefusedReason, message)
		release.Status.NextTryAt = metav1.Time{}
		return model.Target{}, false
	}
	if isTried {
		report.Unreachable(release, noConnection(release, cluster, r.clusters.State(key).Cause))
	}
	return model.Target{}, false
}

// noConnection returns the message for a Cluster that does not respond. The message depends only on the cause, because
// each change of the message is a write.
func noConnection(release *addonsv1.HelmOpRelease, cluster *clusterv1.Cluster, cause clusterlink.Cause) string {
	if hint := clusterlife.RenewalHint(cluster); hint != "" && cause == clusterlink.CauseCredentials {
		return "The API server of the Cluster cannot be reached: " + string(cause) + hint
	}
	if cause == clusterlink.CauseMissing {
		return "The API server of the Cluster cannot be reached: " + string(cause) + "; create the Secret " +
			apiutil.ClusterTitle(release) + "-kubeconfig, or set this label of the Secret to the name of the Cluster. " +
			"HelmOp continues when the API server answers"
	}
	if cause != "" {
		return "The API server of the Cluster cannot be reached: " + string(cause) + "; correct the Secret " +
			apiutil.ClusterTitle(release) + "-kubeconfig. HelmOp continues when the API server answers"
	}
	return "The API server of the Cluster cannot be reached: check that it runs, that the Secret " +
		apiutil.ClusterTitle(release) + "-kubeconfig is valid and the manager may read it, and that no firewall or network " +
		"policy blocks the connection. HelmOp continues when the API server answers"
}

// reconnectRetry returns the delay before the next pass over a release without a connection.
func reconnectRetry(release *addonsv1.HelmOpRelease, state clusterlink.State) time.Duration {
	if state.Failures > 0 {
		return queue.Spread(downRetry, release)
	}
	return queue.Spread(requeue.UnreachableRetry, release)
}

// checkKubeconfig returns an error if the kubeconfig of a Cluster must not be used. It returns nil if the kubeconfig
// may be used or cannot be read.
func (r *Reconciler) checkKubeconfig(ctx context.Context, cluster client.ObjectKey) error {
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	if err := r.kubeconfigs.Get(ctx, key, &corev1.Secret{}); errors.Is(err, clusterview.ErrKubeconfigRefused) {
		return err
	}
	return nil
}

// initializedSince returns the time at which the control plane of a Cluster became initialized. ok is false if the
// HelmOp was created later. The time until the first deployment is then not a delay by HelmOp.
func initializedSince(cluster *clusterv1.Cluster, helmOp *addonsv1.HelmOp) (time.Time, bool) {
	since := conditions.GetLastTransitionTime(cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	if since == nil || helmOp == nil || since.Time.Before(helmOp.CreationTimestamp.Time) {
		return time.Time{}, false
	}
	return since.Time, true
}

// mayAccess reports whether the HelmOp may access the Cluster. If not, it sets the condition Ready of the release to
// False, and removes ClusterReachable. For a Cluster in the namespace of the HelmOp, it needs no request.
func (r *Reconciler) mayAccess(ctx context.Context, scope *releaseScope) (bool, error) {
	denied, err := r.denied(ctx, scope)
	if denied == "" {
		return err == nil, err
	}
	r.dropObjectState(client.ObjectKeyFromObject(scope.release))
	if report.NotConnecting(scope.release, addonsv1.ClusterAccessDeniedReason, denied) {
		r.event(scope, corev1.EventTypeWarning, addonsv1.ClusterAccessDeniedReason, "Connect", denied)
	}
	return false, nil
}

// denied returns the cause if the HelmOp may not access the Cluster. It returns an empty text if the HelmOp may access
// the Cluster, or if an error prevented the check.
func (r *Reconciler) denied(ctx context.Context, scope *releaseScope) (string, error) {
	release, key := scope.release, apiutil.ClusterKey(scope.release)
	if key.Namespace == release.Namespace {
		return "", nil
	}
	if scope.helmOp == nil {
		return fmt.Sprintf("Access denied: %s is in another namespace, and the HelmOp with the right to access it "+
			"does not exist", apiutil.TitleOf(release.Namespace, key)), nil
	}
	if allowed, err := r.guard.Allows(ctx, scope.helmOp, key); err != nil || allowed {
		return "", err
	}
	return selection.DeniedError(scope.helmOp, key).Error(), nil
}
