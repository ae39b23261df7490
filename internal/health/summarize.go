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
	// creationGrace is how long after a deployment an object may be unseen: watches lag behind.
	creationGrace = 10 * time.Second
	// maxNamed is how many objects a summary names.
	maxNamed = 3
	// maxSummaryBytes bounds the message of a summary.
	maxSummaryBytes = 1024
)

// Summarize turns the health of the objects of a release into one state. The order of the objects does not matter.
//
// It ignores deleted Jobs, because finished ones are commonly deleted.
func Summarize(objects []Object, policy Policy, past Past, now time.Time) Summary {
	if policy.Timeout <= 0 {
		policy.Timeout = DefaultTimeout
	}
	lacking := notCurrent(objects)
	if len(lacking) == 0 {
		past.Healthy, past.Lost, past.ProgressingSince = true, false, time.Time{}
		return Summary{State: StateHealthy, Past: past}
	}
	summary := Summary{Message: describe(lacking, len(objects)), Past: past}
	if past.Healthy {
		summary.afterHealthy(lacking, policy, now)
	} else {
		summary.beforeHealthy(lacking, policy, now)
	}
	return summary
}

// beforeHealthy judges a release that is not known to have ever been healthy.
func (s *Summary) beforeHealthy(lacking []Object, policy Policy, now time.Time) {
	if policy.FailFast {
		grace := s.Past.DeployedAt.Add(creationGrace).Sub(now)
		switch {
		case slices.ContainsFunc(lacking, failed), grace <= 0 && slices.ContainsFunc(lacking, missing):
			s.State = StateFailed
			return
		case slices.ContainsFunc(lacking, missing):
			s.RequeueAfter = grace
		}
	}
	left := s.Past.DeployedAt.Add(policy.Timeout).Sub(now)
	if left <= 0 {
		s.State, s.RequeueAfter = StateTimedOut, 0
		return
	}
	s.State = StateProgressing
	if s.RequeueAfter == 0 || left < s.RequeueAfter {
		s.RequeueAfter = left
	}
}

// afterHealthy judges a release that worked.
func (s *Summary) afterHealthy(lacking []Object, policy Policy, now time.Time) {
	if s.Past.ProgressingSince.IsZero() {
		// Statuses hold whole seconds.
		s.Past.ProgressingSince = now.Truncate(time.Second)
	}
	if policy.FailFast && slices.ContainsFunc(lacking, broken) {
		s.State, s.Past.Lost = StateFailed, true
		return
	}
	left := s.Past.ProgressingSince.Add(policy.Timeout).Sub(now)
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

func failed(o Object) bool  { return o.Verdict == Failed }
func missing(o Object) bool { return o.Verdict == NotFound }

// broken is true of what does not come back by itself.
func broken(o Object) bool { return failed(o) || missing(o) || o.Verdict == Terminating }

// notCurrent returns the objects that are not current, the worst first, then by name.
func notCurrent(objects []Object) []Object {
	var lacking []Object
	for _, o := range objects {
		finished := o.Verdict == NotFound && o.Ref.Group == "batch" && o.Ref.Kind == "Job"
		if o.Verdict != Current && !finished {
			lacking = append(lacking, o)
		}
	}
	slices.SortFunc(lacking, func(a, b Object) int {
		if a.Verdict != b.Verdict {
			return severity(a.Verdict) - severity(b.Verdict)
		}
		return inventory.Compare(a.Ref, b.Ref)
	})
	return lacking
}

func severity(v Verdict) int {
	order := []Verdict{Failed, NotFound, Terminating, InProgress}
	if i := slices.Index(order, v); i >= 0 {
		return i
	}
	return len(order)
}

// words are the messages for verdicts without one.
var words = map[Verdict]string{
	InProgress: "is in progress", Failed: "has failed", Terminating: "is being deleted", NotFound: "does not exist",
}

// describe names the first of the objects that are not current.
func describe(lacking []Object, total int) string {
	var b strings.Builder
	verb := "are"
	if len(lacking) == 1 {
		verb = "is"
	}
	fmt.Fprintf(&b, "%d of %d objects %s not healthy: ", len(lacking), total, verb)
	for i, o := range lacking[:min(len(lacking), maxNamed)] {
		if i > 0 {
			b.WriteString("; ")
		}
		// Names have up to 253 characters each.
		message := cmp.Or(o.Message, words[o.Verdict], "has an unknown health")
		b.WriteString(truncate.Text(o.Ref.String(), 140) + ": " + truncate.Text(message, 140))
	}
	if more := len(lacking) - maxNamed; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return truncate.Text(b.String(), maxSummaryBytes)
}
