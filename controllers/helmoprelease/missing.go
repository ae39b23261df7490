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

// restoreHint is the part of a message that says how to create deleted objects again.
const restoreHint = "to create the missing objects, set driftDetection.mode to Correct, or request a retry"

// listRetry is the delay before the next pass over a release whose objects are being listed. Normally the watcher
// enqueues the release sooner.
const listRetry = 15 * time.Second

// lacksObjects reports whether objects of a release are known to be missing.
func lacksObjects(release *addonsv1.HelmOpRelease) bool {
	return conditions.GetReason(release, addonsv1.HealthyCondition) == addonsv1.ObjectsMissingReason
}

// addExistence adds the objects without a health of their own, which are healthy if they exist. They are watched for
// drift detection, or listed from time to time. They count as existing until they are known to be missing.
func (r *Reconciler) addExistence(p *releasePass, view *objectView) {
	for _, object := range view.objects {
		if object.Status == health.NotFound && !isJob(object.Ref) {
			view.missing++
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
		view.unlisted = view.unlisted || isFollowed && !state.Known
		if !state.Exists && state.Health == health.NotFound {
			view.missing++
			view.objects = append(view.objects, health.Object{Ref: ref, Status: health.NotFound, Message: state.Message})
		} else {
			view.objects = append(view.objects, health.Object{Ref: ref, Status: health.Current})
		}
	}
	if view.unlisted && view.missing == 0 && view.blocker == "" && lacksObjects(p.release) {
		// After a restart, the objects that are missing according to the status may not be listed yet.
		view.blocker = notCheckedYet
	}
}

// isRestoreRequested reports whether the missing objects must be created again, because a retry is requested by the
// annotation. A change of the spec is no such request.
func isRestoreRequested(p *releasePass) bool {
	return p.missing > 0 && p.subject().NewRetryRequest() != ""
}

func isJob(ref inventory.Ref) bool { return ref.Group == "batch" && ref.Kind == "Job" }

// listForRetry lists the objects that are not watched before a retry request counts as met. The user may request the
// retry because objects were just deleted.
func (r *Reconciler) listForRetry(p *releasePass) {
	memory, request := r.memoryOf(p.release), p.subject().NewRetryRequest()
	isWatched := releasespec.DriftModeOf(&p.release.Spec) != addonsv1.DriftModeDisabled ||
		!releasespec.FollowsHealth(&p.release.Spec)
	if p.snapshot == nil || isWatched || p.missing > 0 || request == "" {
		memory.listedFor = ""
		return
	}
	p.isListing = p.unlisted
	if memory.listedFor != request {
		memory.listedFor = request
		r.watcher.List(client.ObjectKeyFromObject(p.release))
		p.isListing = true
	}
	if p.isListing {
		p.due(listRetry)
	}
}
