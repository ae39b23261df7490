// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// defaultDeletionTimeout is that of the API, for releases that were written without its defaults.
	defaultDeletionTimeout = 10 * time.Minute
)

// TakesPart tells whether a release may take part in the life of its Cluster: a HelmOp of the Cluster's own namespace
// has made it. Whoever may only read the kubeconfig of a Cluster, or writes a release of his own, must not change the
// Cluster itself by that. The HelmOp is nil if it is gone; one under deletion is not.
func TakesPart(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	return helmOp != nil && apiutil.ClusterKey(release).Namespace == release.Namespace &&
		helmOp.Namespace == release.Namespace &&
		apiutil.HelmOpOf(release) == helmOp.Name && metav1.IsControlledBy(release, helmOp)
}

// AsksForUninstall tells whether a release is to be uninstalled before its Cluster goes. What is paused or suspended is
// not: nothing will be done for it, so there is nothing to wait for. The HelmOp is nil if it is gone.
func AsksForUninstall(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	if release.Spec.BeforeClusterDelete == nil || apiutil.IsChildPaused(release) || !TakesPart(release, helmOp) {
		return false
	}
	if apiutil.IsHelmOpPaused(helmOp) {
		return false
	}
	return apiutil.DeletionPolicy(release, helmOp) != addonsv1.DeletionPolicyOrphan
}

// UninstallsBeforeDeletion tells whether a release is still to be uninstalled before its Cluster, which is under
// deletion, goes.
func UninstallsBeforeDeletion(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp,
	now time.Time,
) bool {
	hold := apiutil.HoldOf(cluster)
	return !hold.Over && AsksForUninstall(release, helmOp) && (!hold.IsOn() || DeletionRest(hold, release, now) > 0)
}

// DeletionTimeout is how long the deletion is held for a release.
func DeletionTimeout(release *addonsv1.HelmOpRelease) time.Duration {
	if before := release.Spec.BeforeClusterDelete; before != nil && before.Timeout.Duration > 0 {
		return before.Timeout.Duration
	}
	return defaultDeletionTimeout
}

// DeletionRest is how long the deletion is held for a release yet; 0 or less if that is over.
func DeletionRest(hold apiutil.DeletionHold, release *addonsv1.HelmOpRelease, now time.Time) time.Duration {
	since := hold.Since
	if since.After(now) {
		since = now
	}
	return since.Add(DeletionTimeout(release)).Sub(now)
}

// BeforeDeletion has an uninstallation before the Cluster goes wait until the objects are gone, what others do for them
// included: once the Cluster is gone, nobody takes away a load balancer. It ends with the hold, or earlier if the user
// says so.
func BeforeDeletion(options *model.UninstallOptions, cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease,
	now time.Time,
) {
	hold := apiutil.HoldOf(cluster)
	if !hold.IsOn() {
		return
	}
	options.Wait = true
	rest := max(DeletionRest(hold, release, now), time.Second)
	if options.Timeout <= 0 || options.Timeout > rest {
		options.Timeout = rest
	}
}
