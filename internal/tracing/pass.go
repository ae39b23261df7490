// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// Pass collects the steps of one pass over a release for its trace. A nil Pass collects nothing: use it for a release
// that is not traced. A Pass is not safe for concurrent use.
type Pass struct {
	trace  *Trace
	memory func() *Memory
	now    func() time.Time
	spans  []Span
}

// PassOver returns the Pass of a release; nil if the release is not traced. memory returns the memory of the trace.
func (t *Tracer) PassOver(release *addonsv1.HelmOpRelease, memory func() *Memory, now func() time.Time) *Pass {
	trace := t.Of(release)
	if trace == nil {
		return nil
	}
	return &Pass{trace: trace, memory: memory, now: now}
}

// Now returns the current time; the zero time for a nil Pass.
func (p *Pass) Now() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.now()
}

// Wait notes that a step has waited since a time. A later pass continues with the step.
func (p *Pass) Wait(step string, since time.Time) {
	if p != nil {
		p.memory().Wait(step, since)
	}
}

// Step notes a step that ended now. It began at a time or, if it waited, in an earlier pass.
func (p *Pass) Step(step string, began time.Time) {
	if p == nil {
		return
	}
	if since, ok := p.memory().Waited(step); ok {
		began = since
	}
	p.spans = append(p.spans, Span{Name: step, Began: began, Ended: p.now()})
}

// EndWait notes that the wait of a step ended now, if the step waited.
func (p *Pass) EndWait(step string) {
	if p == nil {
		return
	}
	if since, ok := p.memory().Waited(step); ok {
		p.spans = append(p.spans, Span{Name: step, Began: since, Ended: p.now()})
	}
}

// FailedInputs adds the steps to the trace, if the pass ended because its last step failed. It adds nothing while a
// step waits. reason is the reason of the condition Released.
func (p *Pass) FailedInputs(reason string) {
	switch {
	case p == nil, reason == addonsv1.UpdatingReason, reason == addonsv1.FetchingArtifactReason:
		return
	}
	if last := len(p.spans) - 1; last >= 0 {
		p.spans[last].Failure = reason
	}
	p.trace.Add(p.spans...)
}

// Action adds an action that ended, and the steps before it, to the trace. failure is the reason of a failed action.
func (p *Pass) Action(name string, began, ended time.Time, failure string) {
	if p == nil {
		return
	}
	p.trace.Add(append(p.spans, Span{Name: name, Began: began, Ended: ended, Failure: failure})...)
}

// Progress adds what the pass completed. before and after are the release at the beginning and at the end of the pass,
// which began at a time. Progress adds nothing for a release under deletion.
func (p *Pass) Progress(before, after *addonsv1.HelmOpRelease, began time.Time) {
	if p != nil && after.DeletionTimestamp.IsZero() {
		p.trace.Progress(before, after, p.memory(), began, p.now())
	}
}
