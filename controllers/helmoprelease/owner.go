// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// ownerWait is how long the release of a HelmOp that does not exist stays after its object was deleted. A HelmOp
	// that is deleted in order waits for its releases. After a restore from a backup that brings HelmOpReleases before
	// HelmOps, garbage collection deletes those whose owner does not exist.
	ownerWait = 10 * time.Minute

	// ownerRetry is how often it is looked for the HelmOp meanwhile.
	ownerRetry = 15 * time.Second
)

// isOwnerAwaited tells whether the HelmOp of a release under deletion may still be restored.
func isOwnerAwaited(release *addonsv1.HelmOpRelease, now time.Time) bool {
	return now.Before(release.DeletionTimestamp.Add(ownerWait))
}

// awaitOwner leaves a release as it is until its HelmOp may have been restored, and says so.
func (r *Reconciler) awaitOwner(ctx context.Context, scope *releaseScope) ctrl.Result {
	release := scope.release
	until := release.DeletionTimestamp.Add(ownerWait)
	name, uid := apiutil.HelmOpOf(release), ""
	if owner := metav1.GetControllerOf(release); owner != nil {
		uid = string(owner.UID)
	}
	message := fmt.Sprintf("HelmOp %q with the UID %s, to which this release belongs, does not exist: perhaps a "+
		"restore from a backup is under way. "+
		"The release is uninstalled at %s unless a HelmOp of that name wants it by then; to leave it in the cluster, set "+
		"the annotation %s=true here",
		name, uid, until.UTC().Format(time.RFC3339), addonsv1.OrphanAnnotation)
	if report.SetNotReady(release, addonsv1.OwnerNotFoundReason, message) {
		r.event(scope, corev1.EventTypeWarning, addonsv1.OwnerNotFoundReason, verbUninstall, message)
		ctrl.LoggerFrom(ctx).Info("Waiting before a release is uninstalled whose HelmOp does not exist", "until", until)
	}
	return ctrl.Result{RequeueAfter: min(ownerRetry, max(until.Sub(r.now()), time.Second))}
}
