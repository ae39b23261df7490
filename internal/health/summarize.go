// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// creationGrace is how long after a deployment an object may be missing, because watches show it late.
	creationGrace = 10 * time.Second
	// maxNamed is how many objects a summary names.
	maxNamed = 3
	// maxSummaryBytes is the longest message of a summary, in bytes.
	maxSummaryBytes = 1024
	// minObserved is how long a process observes a release that is not healthy before the release times out. If the
	// previous process had another clock, the times that it stored may be too early. A longer time would delay true
	// timeouts more after a restart.
	minObserved = time.Minute
)

// Summarize computes the state of a release from the health of its objects. The order of the objects does not matter.
//
// Summarize ignores deleted Jobs, because finished Jobs are commonly deleted.
func Summarize(objects []Object, policy Policy, past Past, now time.Time) Summary {
	if policy.Timeout <= 0 {
		policy.Timeout = DefaultTimeout
	}
	unhealthy := notCurrent(objects)
	if len(unhealthy) == 0 {
		past.Healthy, past.Lost, past.ProgressingSince, past.ObservedSince = true, false, time.Time{}, time.Time{}
		return Summary{State: StateHealthy, Past: past}
	}
	isObserved := slices.ContainsFunc(unhealthy, observed)
	if past.ObservedSince.IsZero() || !isObserved {
		past.ObservedSince = now
	}
	summary := Summary{Message: describe(unhealthy, len(objects)), Past: past}
	if past.Healthy {
		summary.afterHealthy(unhealthy, policy, now)
	} else {
		summary.beforeHealthy(unhealthy, policy, now)
	}
	if !isObserved {
		summary.Past.ObservedSince = time.Time{}
	}
	return summary
}

// beforeHealthy sets the state of a release that has not been healthy yet.
func (s *Summary) beforeHealthy(unhealthy []Object, policy Policy, now time.Time) {
	if policy.FailFast {
		grace := s.Past.DeployedAt.Add(creationGrace).Sub(now)
		switch {
		case slices.ContainsFunc(unhealthy, failed), grace <= 0 && slices.ContainsFunc(unhealthy, missing):
			s.State = StateFailed
			return
		case slices.ContainsFunc(unhealthy, missing):
			s.RequeueAfter = grace
		}
	}
	left := s.Past.Left(s.Past.DeployedAt, policy, now)
	if left <= 0 {
		s.State, s.RequeueAfter = StateTimedOut, 0
		return
	}
	s.State = StateProgressing
	if s.RequeueAfter == 0 || left < s.RequeueAfter {
		s.RequeueAfter = left
	}
}

// afterHealthy sets the state of a release that has been healthy.
func (s *Summary) afterHealthy(unhealthy []Object, policy Policy, now time.Time) {
	if s.Past.ProgressingSince.IsZero() {
		// Statuses hold whole seconds.
		s.Past.ProgressingSince = now.Truncate(time.Second)
	}
	if policy.FailFast && slices.ContainsFunc(unhealthy, isBroken) {
		s.State, s.Past.Lost = StateFailed, true
		return
	}
	left := s.Past.Left(s.Past.ProgressingSince, policy, now)
	switch {
	case left <= 0:
		s.State, s.Past.Lost = StateTimedOut, true
		return
	case s.Past.Lost:
		s.State = StateProgressing
	default:
		s.State = StateHealthy
		s.Message = truncate.Text(s.Message, maxSummaryBytes-64) + ", tolerated since " +
			s.Past.ProgressingSince.UTC().Format(time.RFC3339)
	}
	s.RequeueAfter = left
}

// Left returns the time until a release times out that has not been healthy since a given time. It is negative after
// the timeout. The timeout of the policy must be set.
func (p Past) Left(since time.Time, policy Policy, now time.Time) time.Duration {
	return max(since.Add(policy.Timeout).Sub(now), p.ObservedSince.Add(min(policy.Timeout, minObserved)).Sub(now))
}

func failed(o Object) bool   { return o.Status == Failed }
func missing(o Object) bool  { return o.Status == NotFound }
func observed(o Object) bool { return !o.IsStale }

// isBroken reports whether an object does not become healthy by waiting.
func isBroken(o Object) bool { return failed(o) || missing(o) || o.Status == Terminating }

// notCurrent returns the objects that are not current: the worst state first, then in the order of names.
func notCurrent(objects []Object) []Object {
	var unhealthy []Object
	for _, o := range objects {
		finished := o.Status == NotFound && o.Ref.Group == "batch" && o.Ref.Kind == "Job"
		if o.Status != Current && !finished {
			unhealthy = append(unhealthy, o)
		}
	}
	slices.SortFunc(unhealthy, func(a, b Object) int {
		if a.Status != b.Status {
			return severity(a.Status) - severity(b.Status)
		}
		return inventory.Compare(a.Ref, b.Ref)
	})
	return unhealthy
}

func severity(v Status) int {
	order := []Status{Failed, NotFound, Terminating, InProgress}
	if i := slices.Index(order, v); i >= 0 {
		return i
	}
	return len(order)
}

// defaultMessages are the messages for objects without a message.
var defaultMessages = map[Status]string{
	InProgress: "is in progress", Failed: "has failed", Terminating: "is being deleted", NotFound: "does not exist",
}

// describe returns a message that names the first unhealthy objects.
func describe(unhealthy []Object, total int) string {
	var b strings.Builder
	verb := "are"
	if len(unhealthy) == 1 {
		verb = "is"
	}
	fmt.Fprintf(&b, "%d of %d objects %s not healthy: ", len(unhealthy), total, verb)
	for i, o := range unhealthy[:min(len(unhealthy), maxNamed)] {
		if i > 0 {
			b.WriteString("; ")
		}
		// Names have up to 253 characters each.
		message := cmp.Or(o.Message, defaultMessages[o.Status], "has an unknown health")
		b.WriteString(truncate.Text(o.Ref.String(), 140) + ": " + truncate.Text(message, 140))
	}
	if more := len(unhealthy) - maxNamed; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return truncate.Text(b.String(), maxSummaryBytes)
}
