// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// restoreHint says how to create deleted objects again.
const restoreHint = "set driftDetection.mode to Correct, or request a retry, to create what is missing"

// listRetry is when to reconcile a release whose objects are being listed. The watcher enqueues it sooner.
const listRetry = 15 * time.Second

// lacksObjects reports whether objects of a release are known to be missing.
func lacksObjects(release *addonsv1.HelmOpRelease) bool {
	return conditions.GetReason(release, addonsv1.HealthyCondition) == addonsv1.ObjectsMissingReason
}

// addExistence adds the objects that are healthy as long as they exist. They are watched for drift, or listed from
// time to time, and count as existing until they are known to be missing.
func (r *Reconciler) addExistence(p *releasePass, seen *objectView) {
	for _, object := range seen.objects {
		if object.Status == health.NotFound && !isJob(object.Ref) {
			seen.missing++
		}
	}
	if p.snapshot == nil {
		return
	}
	checked := checkedKinds(&p.release.Spec)
	for _, ref := range refsOf(p.release.Status.Inventory) {
		if hasHealth(checked, ref) {
			continue
		}
		state, isFollowed := p.snapshot.Objects[ref]
		seen.unlisted = seen.unlisted || isFollowed && !state.Known
		if !state.Exists && state.Health == health.NotFound {
			seen.missing++
			seen.objects = append(seen.objects, health.Object{Ref: ref, Status: health.NotFound, Message: state.Message})
		} else {
			seen.objects = append(seen.objects, health.Object{Ref: ref, Status: health.Current})
		}
	}
	if seen.unlisted && seen.missing == 0 && seen.blocker == "" && lacksObjects(p.release) {
		// After a restart, the manager does not know yet what the status says.
		seen.blocker = aboutToLook
	}
}

// isRestoreRequested reports whether a request to retry asks to create missing objects again. A change of the spec
// alone does not.
func isRestoreRequested(p *releasePass) bool {
	return p.missing > 0 && isRetryAnnotated(p)
}

func isJob(ref inventory.Ref) bool { return ref.Group == "batch" && ref.Kind == "Job" }

// isRetryAnnotated reports whether the annotation asks for a retry that was not made yet.
func isRetryAnnotated(p *releasePass) bool {
	request := retryRequest(p.releaseScope)
	return request != "" && request != p.release.Status.LastRetryRequest
}

// listForRetry lists the objects that are not watched before a request to retry counts as met: some may have been
// deleted a moment ago, which is why the user asks.
func (r *Reconciler) listForRetry(p *releasePass) {
	memory := r.memoryOf(p.release)
	isWatched := releasespec.DriftModeOf(&p.release.Spec) != addonsv1.DriftModeDisabled ||
		!releasespec.FollowsHealth(&p.release.Spec)
	if p.snapshot == nil || isWatched || p.missing > 0 || !isRetryAnnotated(p) {
		memory.listedFor = ""
		return
	}
	p.isListing = p.unlisted
	if request := retryRequest(p.releaseScope); memory.listedFor != request {
		memory.listedFor = request
		r.watcher.List(client.ObjectKeyFromObject(p.release))
		p.isListing = true
	}
	if p.isListing {
		p.due(listRetry)
	}
}
