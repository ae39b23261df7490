// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasehealth"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// assessHealth sets the condition Healthy and status.health from the snapshot of the objects. It sends no request.
func (r *Reconciler) assessHealth(p *releasePass) {
	newest, _ := p.observation.Newest()
	outcome := releasehealth.Assess(p.release, &r.memoryOf(p.release).Health, releasehealth.Seen{
		Snapshot: p.snapshot, Unread: p.unread, IsReadPending: errors.Is(p.unread, errNoSlot),
		Newest: newest, Desired: p.desired, Now: r.now(),
	})
	p.missing, p.unlisted = outcome.Missing, outcome.IsUnlisted
	p.unwatchable, p.unhealthy = outcome.IsUnwatchable, outcome.IsUnhealthy
	p.due(outcome.RequeueAfter)
	title := fmt.Sprintf("Cluster %s, release %s", apiutil.ClusterTitle(p.release), describe(p.release))
	switch healthy := conditions.Get(p.release, addonsv1.HealthyCondition); outcome.Change {
	case releasehealth.BecameUnhealthy:
		r.event(p.releaseScope, corev1.EventTypeWarning, healthy.Reason, "Watch", title+": "+healthy.Message)
	case releasehealth.BecameHealthy:
		r.event(p.releaseScope, corev1.EventTypeNormal, healthy.Reason, "Watch", title+" is healthy again")
	case releasehealth.NoChange:
	}
}

// listRetry is the first delay before the next pass over a release whose objects are being listed. The delay doubles,
// up to maxListRetry. Normally, the watcher enqueues the release sooner.
const (
	listRetry    = 15 * time.Second
	maxListRetry = 10 * time.Minute
)

// isRestoreRequested reports whether objects are missing and a user has requested a retry by the annotation. HelmOp
// must then create the objects again. A change of the spec is not a request.
func isRestoreRequested(p *releasePass) bool {
	return p.missing > 0 && p.subject().NewRetryRequest() != ""
}

// listForRetry lists the unwatched objects of a release before a retry request counts as met. The reason for the
// request may be that a user just deleted objects. The mode of the health does not matter.
func (r *Reconciler) listForRetry(p *releasePass) {
	memory, request := r.memoryOf(p.release), p.subject().NewRetryRequest()
	isWatched := releasespec.DriftModeOf(&p.release.Spec) != addonsv1.DriftModeDisabled
	if p.missing > 0 || !isListNeeded(p) || isUnreadable(p.unread) ||
		isWatched && releasespec.FollowsHealth(&p.release.Spec) {
		memory.ListedFor, memory.ListingSince = "", time.Time{}
		return
	}
	p.isListing = p.unlisted || p.snapshot == nil
	if p.snapshot != nil && !isWatched && memory.ListedFor != request {
		memory.ListedFor = request
		r.watcher.List(client.ObjectKeyFromObject(p.release))
		p.isListing = true
	}
	if !p.isListing {
		memory.ListingSince = time.Time{}
		return
	}
	if memory.ListingSince.IsZero() {
		memory.ListingSince = r.now()
	}
	// To wait as long again as until now doubles the delay.
	p.due(min(max(r.now().Sub(memory.ListingSince), listRetry), maxListRetry))
}

// isUnreadable reports whether a manifest cannot be read, and a later read would fail, too, until a user corrects the
// cause. A retry request must not wait for it.
func isUnreadable(err error) bool {
	for _, kind := range []error{helmerr.ErrRecordDamaged, helmerr.ErrInvalidChart, helmerr.ErrTooLarge,
		helmerr.ErrForbidden} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// endListing stops the watches that only a retry request needed, when the request is met.
func (r *Reconciler) endListing(p *releasePass) {
	if !p.isListing && !isFollowed(&p.release.Spec) {
		r.unfollow(p.release)
	}
}
