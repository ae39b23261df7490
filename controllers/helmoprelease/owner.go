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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// ownerWait is how long a release stays installed after its HelmOpRelease was deleted while the HelmOp does not exist.
	// Normally a deleted HelmOp waits for its releases. If a restore from a backup creates HelmOpReleases before HelmOps,
	// garbage collection deletes the HelmOpReleases, because their owner does not exist.
	ownerWait = 10 * time.Minute

	// ownerRetry is the delay between two checks whether the HelmOp exists.
	ownerRetry = 15 * time.Second
)

// isOwnerAwaited reports whether a release under deletion still waits for its HelmOp to be restored.
func isOwnerAwaited(release *addonsv1.HelmOpRelease, now time.Time) bool {
	return now.Before(release.DeletionTimestamp.Add(ownerWait))
}

// awaitOwner reports that a release under deletion waits for its HelmOp to be restored. It returns when to check again.
func (r *Reconciler) awaitOwner(ctx context.Context, scope *releaseScope) ctrl.Result {
	release := scope.release
	until := release.DeletionTimestamp.Add(ownerWait)
	name, uid := apiutil.HelmOpOf(release), ""
	if owner := metav1.GetControllerOf(release); owner != nil {
		uid = string(owner.UID)
	}
	message := fmt.Sprintf("HelmOp %q with the UID %s, the owner of this release, does not exist: a restore from a "+
		"backup may be running. The release is uninstalled at %s unless a HelmOp of this name selects it by then; to leave "+
		"it in the cluster, set the annotation %s=true on this HelmOpRelease", name, uid, until.UTC().Format(time.RFC3339),
		addonsv1.OrphanAnnotation)
	if report.SetNotReady(release, addonsv1.OwnerNotFoundReason, message) {
		r.event(scope, corev1.EventTypeWarning, addonsv1.OwnerNotFoundReason, attempts.VerbUninstall, message)
		ctrl.LoggerFrom(ctx).Info("Waiting before the release is uninstalled, because its HelmOp does not exist",
			"until", until)
	}
	return ctrl.Result{RequeueAfter: min(ownerRetry, max(until.Sub(r.now()), time.Second))}
}
