// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drifttracking"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// assessDrift reports objects that differ from the installed manifest. It sends requests only for objects that changed
// after their last comparison.
func (r *Reconciler) assessDrift(ctx context.Context, p *releasePass) {
	release := p.release
	deferred := r.deferCorrections(p)
	p.drift = &drifttracking.Pass{
		Release: release, Memory: &r.memoryOf(release).Drift, Snapshot: p.snapshot, Target: p.target, Desired: p.desired,
		Newest: newestDeployed(p), IsCorrecting: p.policy.CorrectDrift, Engine: r.engine, Now: r.now,
		WhyDeferred: deferred.Why, RetryRequest: p.subject().NewRetryRequest(),
		Acquire:  func() (func(), bool) { return r.slot(p) },
		MayBegin: func(ctx context.Context) (bool, error) { return r.mayBegin(ctx, p.releaseScope) },
	}
	if p.drift.Compare(ctx) {
		r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.DriftDetectedEvent, attempts.VerbCorrectDrift,
			fmt.Sprintf("Cluster %s, release %s: %s", apiutil.ClusterTitle(release), describe(release),
				drifttracking.List(p.drift.Memory.Differences())))
	}
	p.due(p.drift.RequeueAfter)
	if deferred.Closed && drifttracking.IsDrifted(release) {
		p.due(r.untilOpen(deferred))
	}
	// Known differences count also in a pass without comparisons, but only if the release is in sync. Any other state
	// is worse than drifted.
	p.drifted = drifttracking.IsDrifted(release) &&
		(len(p.drift.Differences) > 0 || release.Status.State == string(model.StateInSync))
}

// newestDeployed returns the newest record if its revision is deployed; otherwise the zero value.
func newestDeployed(p *releasePass) model.Record {
	newest, ok := p.observation.Newest()
	if !ok || newest.Status != model.StatusDeployed {
		return model.Record{}
	}
	return newest
}

// correctDrift corrects the differences that this pass found.
func (r *Reconciler) correctDrift(ctx context.Context, p *releasePass) {
	before := conditions.GetReason(p.release, addonsv1.DriftedCondition)
	corrected, hasFailed := p.drift.Correct(ctx)
	p.due(p.drift.RequeueAfter)
	r.reportCorrected(p, corrected, hasFailed)
	after := conditions.Get(p.release, addonsv1.DriftedCondition)
	if hasFailed && after.Reason == addonsv1.DriftCorrectionFailedReason && before != after.Reason {
		r.event(p.releaseScope, corev1.EventTypeWarning, after.Reason, attempts.VerbCorrectDrift, fmt.Sprintf(
			"Cluster %s, release %s: %s", apiutil.ClusterTitle(p.release), describe(p.release), after.Message))
	}
	r.updateState(p)
}

// updateState sets the state of the release after a correction. If the release is in sync but objects still differ, the
// state is Drifted. Otherwise, it is the state without drift.
func (r *Reconciler) updateState(p *releasePass) {
	p.drifted = false
	if r.decide(p); p.decision.State == model.StateInSync && drifttracking.IsDrifted(p.release) {
		p.drifted = true
		r.decide(p)
	}
}

// reportCorrected adds a correction to the history and records an Event.
func (r *Reconciler) reportCorrected(p *releasePass, corrected []drift.Difference, hasFailed bool) {
	if len(corrected) == 0 {
		return
	}
	revision := int64(p.decision.FromRevision)
	attempts.Remember(&p.release.Status, addonsv1.ReleaseAction{
		Action: attempts.VerbCorrectDrift, Reason: p.decision.Reason, FromRevision: revision, Revision: revision,
		Succeeded: !hasFailed, Time: metav1.NewTime(r.now()),
	})
	r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.DriftCorrectedEvent, attempts.VerbCorrectDrift, fmt.Sprintf(
		"Cluster %s, release %s: corrected %s", apiutil.ClusterTitle(p.release), describe(p.release),
		drifttracking.List(corrected)))
}
