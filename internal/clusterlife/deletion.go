// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// defaultDeletionTimeout is the default of the API, for releases that were written without the defaults of the API.
	defaultDeletionTimeout = 10 * time.Minute
)

// MayAffectCluster reports whether a release may change or hold its Cluster. It may if a HelmOp in the namespace of the
// Cluster controls the release. A user who may only read the kubeconfig of a Cluster, or who writes a release directly,
// must not be able to change the Cluster. The HelmOp is nil if it does not exist; a HelmOp under deletion exists.
func MayAffectCluster(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	return helmOp != nil && apiutil.ClusterKey(release).Namespace == release.Namespace &&
		helmOp.Namespace == release.Namespace &&
		apiutil.HelmOpOf(release) == helmOp.Name && metav1.IsControlledBy(release, helmOp)
}

// RequiresUninstall reports whether a release must be uninstalled before its Cluster is deleted. It is false for a
// paused release, or a release of a paused HelmOp: no manager works on this release, so a wait would never end. The
// HelmOp is nil if it does not exist.
func RequiresUninstall(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	if release.Spec.BeforeClusterDelete == nil || apiutil.IsChildPaused(release) || !MayAffectCluster(release, helmOp) {
		return false
	}
	if apiutil.IsHelmOpPaused(helmOp) {
		return false
	}
	return apiutil.DeletionPolicy(release, helmOp) != addonsv1.DeletionPolicyOrphan
}

// UninstallsBeforeDeletion reports whether the deletion of a Cluster still has to wait until a release is uninstalled.
// The Cluster is under deletion.
func UninstallsBeforeDeletion(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp,
	now time.Time,
) bool {
	hold := apiutil.HoldOf(cluster)
	return !hold.Over && RequiresUninstall(release, helmOp) && (!hold.IsOn() || DeletionRest(hold, release, now) > 0)
}

// RenewalHint returns what a user can do if the API server rejects the credentials in the kubeconfig of a Cluster. It
// returns an empty text unless HelmOp pauses the Cluster to hold its deletion. Some providers write tokens that are
// valid for minutes, and no provider renews a kubeconfig during a pause.
func RenewalHint(cluster *clusterv1.Cluster) string {
	if cluster == nil || !apiutil.HasPauseOfHold(cluster) {
		return ""
	}
	return fmt.Sprintf(", and Cluster API does not renew them while HelmOp pauses the Cluster to hold its deletion: "+
		"write valid credentials to the Secret %s-kubeconfig, or set the annotation %s=%s and remove spec.paused",
		client.ObjectKeyFromObject(cluster), addonsv1.DeletionHoldAnnotation, apiutil.DeletionHoldOver)
}

// DeletionTimeout is the longest time for which a release holds the deletion of its Cluster.
func DeletionTimeout(release *addonsv1.HelmOpRelease) time.Duration {
	if before := release.Spec.BeforeClusterDelete; before != nil && before.Timeout.Duration > 0 {
		return before.Timeout.Duration
	}
	return defaultDeletionTimeout
}

// DeletionRest returns for how long a release may still hold the deletion of its Cluster; 0 or less if this time is
// over.
func DeletionRest(hold apiutil.DeletionHold, release *addonsv1.HelmOpRelease, now time.Time) time.Duration {
	since := hold.Since
	if since.After(now) {
		since = now
	}
	return since.Add(DeletionTimeout(release)).Sub(now)
}

// BeforeDeletion changes the options of an uninstallation that holds the deletion of the Cluster: the uninstallation
// waits until the objects no longer exist. Then other controllers have removed what they created for the objects, for
// example a load balancer: after the deletion of the Cluster, no controller removes it. The wait ends with the hold, or
// earlier if the timeout of the user is shorter. In the latter case, the uninstallation is repeated until the hold
// ends.
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
