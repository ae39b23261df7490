// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// traceNow returns the current time; without traces, the zero time.
func (r *Reconciler) traceNow() time.Time {
	if r.tracer == nil {
		return time.Time{}
	}
	return r.now()
}

// traceWait notes that a step of a pass waits, and since when. A later pass continues with the step.
func (r *Reconciler) traceWait(p *releasePass, step string, since time.Time) {
	if r.tracer.Of(p.release) != nil {
		r.memoryOf(p.release).trace.Wait(step, since)
	}
}

// traceStep notes a step of a pass that ended now. It began now or, if it waited, in an earlier pass.
func (r *Reconciler) traceStep(p *releasePass, step string, began time.Time) {
	if r.tracer.Of(p.release) == nil {
		return
	}
	if since, ok := r.memoryOf(p.release).trace.Waited(step); ok {
		began = since
	}
	p.spans = append(p.spans, tracing.Span{Name: step, Began: began, Ended: r.now()})
}

// traceFailedInputs adds the steps of a pass to the trace, if the pass ended because its last step failed. It adds
// nothing while a step waits.
func (r *Reconciler) traceFailedInputs(p *releasePass) {
	reason := conditions.GetReason(p.release, addonsv1.ReleasedCondition)
	switch reason {
	case addonsv1.UpdatingReason, addonsv1.FetchingArtifactReason:
		return
	}
	if last := len(p.spans) - 1; last >= 0 {
		p.spans[last].Failure = reason
	}
	r.tracer.Of(p.release).Add(p.spans...)
}

// traceAction adds an action that ended, and the steps of the pass before it, to the trace.
func (r *Reconciler) traceAction(p *releasePass, decision decide.Decision, began, ended time.Time, err error) {
	trace := r.tracer.Of(p.release)
	if trace == nil {
		return
	}
	if since, ok := r.memoryOf(p.release).trace.Waited(tracing.SpanWaitForSlot); ok {
		p.spans = append(p.spans, tracing.Span{Name: tracing.SpanWaitForSlot, Began: since, Ended: began})
	}
	action := tracing.Span{Name: strings.ToLower(attempts.VerbOf(decision.Action)), Began: began, Ended: ended}
	if err != nil {
		action.Failure = conditions.GetReason(p.release, addonsv1.ReleasedCondition)
	}
	trace.Add(append(p.spans, action)...)
}

// traceProgress adds what a pass completed to the trace of a release that is not under deletion.
func (r *Reconciler) traceProgress(scope *releaseScope, began time.Time) {
	trace := r.tracer.Of(scope.release)
	if trace != nil && scope.release.DeletionTimestamp.IsZero() {
		trace.Progress(scope.before, scope.release, &r.memoryOf(scope.release).trace, began, r.now())
	}
}
