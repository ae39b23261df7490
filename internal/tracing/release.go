// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// These are the names of spans. The spans of Helm actions have the name of the action, for example install.
const (
	// SpanRevision is the root span: it lasts from the assignment of the HelmOp revision until the release is Ready.
	SpanRevision = "revision"

	// SpanResolve is the lookup that found the artifact.
	SpanResolve = "resolve"

	// SpanRender renders the values for the Cluster, first to plan the rollout and then for the action.
	SpanRender = "render"

	// SpanAssign writes the HelmOpRelease.
	SpanAssign = "assign"

	// SpanObserve reads Helm's records in the Cluster.
	SpanObserve = "observe"

	// SpanPull pulls and parses the chart, or waits until another release has done it.
	SpanPull = "pull"

	// SpanWaitForSlot is the wait for a slot, because a concurrency limit is reached.
	SpanWaitForSlot = "wait-for-slot"

	// SpanWaitForHealth is the wait until the objects of the release are healthy.
	SpanWaitForHealth = "wait-for-health"
)

// Memory holds the state of the trace of a release between passes. It is not safe for concurrent use. Its zero value is
// empty.
type Memory struct {
	waiting map[string]time.Time
	// revision is the last HelmOp revision whose trace has its root span.
	revision int64
}

// Wait records that a step has waited since a time. A second call for the step does not change the time.
func (m *Memory) Wait(name string, since time.Time) {
	if _, ok := m.waiting[name]; ok {
		return
	}
	if m.waiting == nil {
		m.waiting = map[string]time.Time{}
	}
	m.waiting[name] = since
}

// Waited returns when the wait of a step began, and deletes the record of the wait. ok is false if the step did not
// wait.
func (m *Memory) Waited(name string) (since time.Time, ok bool) {
	since, ok = m.waiting[name]
	delete(m.waiting, name)
	return since, ok
}

// Progress adds the spans that a pass over a release completed: the wait for its health, and the root span when the
// release is Ready. before and after are the release at the start and at the end of the pass.
func (t *Trace) Progress(before, after *addonsv1.HelmOpRelease, memory *Memory, began, ended time.Time) {
	if t == nil {
		return
	}
	if health, ok := healthSpan(before, after, ended); ok {
		t.Add(health)
	}
	if root, ok := rootSpan(before, after, memory.revision, began, ended); ok {
		memory.revision = after.Spec.Rollout.Revision
		t.End(root)
	}
}

// healthSpan returns the span of the wait for the health of a Helm revision, if the wait ended in a pass: the revision
// is healthy for the first time, or has failed.
func healthSpan(before, after *addonsv1.HelmOpRelease, now time.Time) (Span, bool) {
	health := after.Status.Health
	if health == nil || health.Since.IsZero() {
		return Span{}, false
	}
	var known addonsv1.HealthStatus
	if before.Status.Health != nil && before.Status.Health.Revision == health.Revision {
		known = *before.Status.Health
	}
	span := Span{Name: SpanWaitForHealth, Began: health.Since.Time, Ended: now}
	switch {
	case health.WasHealthy && !known.WasHealthy:
		return span, true
	case health.Failed && !known.Failed:
		span.Failure = conditions.GetReason(after, addonsv1.HealthyCondition)
		return span, true
	default:
		return Span{}, false
	}
}

// rootSpan returns the root span of the trace of a HelmOp revision, if the release became Ready with the revision in a
// pass. traced is the last revision whose trace has its root span. If a release becomes Ready again later, its trace is
// already complete.
func rootSpan(before, after *addonsv1.HelmOpRelease, traced int64, began, ended time.Time) (Span, bool) {
	isNew := before.Status.ObservedGeneration != after.Generation
	rollout, health := after.Spec.Rollout, before.Status.Health
	switch {
	case rollout == nil, rollout.Revision == traced, !conditions.IsTrue(after, addonsv1.ReadyCondition):
		return Span{}, false
	case isNew:
		// The release needed no action.
		return Span{Name: SpanRevision, Began: began, Ended: ended}, true
	case conditions.IsTrue(before, addonsv1.ReadyCondition):
		return Span{}, false
	case health != nil && health.WasHealthy && after.Status.Health != nil &&
		health.Revision == after.Status.Health.Revision && conditions.Get(after, addonsv1.TestedCondition) == nil:
		return Span{}, false
	}
	return Span{Name: SpanRevision, Began: rollout.At.Time, Ended: ended}, true
}
