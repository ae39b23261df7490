// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func named(kind, name string, status Status, message string) Object {
	return Object{Ref: inventory.Ref{Group: "apps", Version: "v1", Kind: kind, Namespace: "ns", Name: name},
		Status: status, Message: message}
}

func of(statuses ...Status) []Object {
	var objects []Object
	for i, v := range statuses {
		objects = append(objects, named("Deployment", fmt.Sprint(i), v, ""))
	}
	return objects
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	deployed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fast, patient := Policy{Timeout: time.Minute, FailFast: true}, Policy{Timeout: time.Minute}
	young := Past{Revision: 7, DeployedAt: deployed, ObservedSince: deployed}
	worked := Past{Revision: 7, DeployedAt: deployed, Healthy: true}
	later := deployed.Add(24 * time.Hour)
	since := func(p Past, at time.Time) Past { p.ProgressingSince, p.ObservedSince = at, at; return p }
	lost := func(p Past) Past { p.Lost = true; return p }
	for _, tt := range []struct {
		name    string
		objects []Object
		policy  Policy
		past    Past
		now     time.Time
		want    State
		again   time.Duration
		after   Past
	}{
		{"nothing to judge", nil, fast, young, deployed, StateHealthy, 0, worked},
		{"all current", of(Current, Current), fast, young, deployed, StateHealthy, 0, worked},
		{"on its way", of(Current, InProgress), fast, young, deployed.Add(20 * time.Second), StateProgressing,
			40 * time.Second, young},
		{"not seen yet", of(Unknown), fast, young, deployed, StateProgressing, time.Minute, young},
		{"the default of the timeout", of(InProgress), Policy{}, young, deployed, StateProgressing, 5 * time.Minute, young},
		{"too long on its way", of(InProgress), fast, young, deployed.Add(time.Minute), StateTimedOut, 0, young},
		{"healthy after all", of(Current), fast, young, later, StateHealthy, 0, worked},
		{"failed at once", of(Failed, InProgress), fast, young, deployed, StateFailed, 0, young},
		{"failed, with patience", of(Failed), patient, young, deployed, StateProgressing, time.Minute, young},
		{"failed, at the end of patience", of(Failed), patient, young, deployed.Add(time.Minute), StateTimedOut, 0, young},
		{"not yet seen by the watch", of(NotFound), fast, young, deployed.Add(4 * time.Second), StateProgressing,
			6 * time.Second, young},
		{"grace is not longer than the timeout", of(NotFound), Policy{Timeout: 5 * time.Second, FailFast: true}, young,
			deployed.Add(4 * time.Second), StateProgressing, time.Second, young},
		{"not there", of(NotFound), fast, young, deployed.Add(10 * time.Second), StateFailed, 0, young},
		{"replaced by the upgrade", of(Terminating), fast, young, deployed.Add(30 * time.Second), StateProgressing,
			30 * time.Second, young},

		{"a node joins", of(InProgress), fast, worked, later, StateHealthy, time.Minute, since(worked, later)},
		{"the node takes its time", of(InProgress), fast, since(worked, later), later.Add(59 * time.Second), StateHealthy,
			time.Second, since(worked, later)},
		{"the node takes too long", of(InProgress), fast, since(worked, later), later.Add(time.Minute), StateTimedOut, 0,
			lost(since(worked, later))},
		{"the node is there", of(Current), fast, since(worked, later), later, StateHealthy, 0, worked},
		{"nothing is known for a moment", of(Unknown), fast, worked, later, StateHealthy, time.Minute, since(worked, later)},
		{"fails later", of(Failed), fast, worked, later, StateFailed, 0, lost(since(worked, later))},
		{"deleted later", of(NotFound), fast, worked, later, StateFailed, 0, lost(since(worked, later))},
		{"being deleted later", of(Terminating), fast, worked, later, StateFailed, 0, lost(since(worked, later))},
		{"deleted, with patience", of(NotFound), patient, worked, later, StateHealthy, time.Minute, since(worked, later)},
		{"deleted and on its way back", of(InProgress), fast, lost(since(worked, later)), later.Add(time.Second),
			StateProgressing, 59 * time.Second, lost(since(worked, later))},
		{"back too late", of(InProgress), fast, lost(since(worked, later)), later.Add(time.Minute), StateTimedOut, 0,
			lost(since(worked, later))},
		{"back", of(Current), fast, lost(since(worked, later)), later.Add(time.Hour), StateHealthy, 0, worked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Summarize(tt.objects, tt.policy, tt.past, tt.now)
			if got.State != tt.want || got.RequeueAfter != tt.again || got.Past != tt.after {
				t.Errorf("got %s in %s, %+v; want %s in %s, %+v", got.State, got.RequeueAfter, got.Past, tt.want, tt.again,
					tt.after)
			}
			if waits := got.State == StateProgressing; waits && got.RequeueAfter <= 0 {
				t.Error("there is no check at the deadline")
			}
		})
	}
}

// TestClockAhead checks releases that were deployed, or healthy, according to the clock of another process. The clock
// of this process is ahead.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		past    Past
		timeout time.Duration
		waits   time.Duration
		during  State
	}{
		"after its deployment":        {Past{}, 5 * time.Minute, time.Minute, StateProgressing},
		"with a short timeout":        {Past{}, 20 * time.Second, 20 * time.Second, StateProgressing},
		"after it was healthy":        {Past{Healthy: true}, 5 * time.Minute, time.Minute, StateHealthy},
		"after it was not healthy":    {Past{Healthy: true, Lost: true}, 5 * time.Minute, time.Minute, StateProgressing},
		"observed before by the same": {Past{ObservedSince: now.Add(-time.Minute)}, 5 * time.Minute, 0, StateTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy, past := Policy{Timeout: tc.timeout}, tc.past
			past.DeployedAt, past.ProgressingSince = now.Add(-8*time.Minute), now.Add(-8*time.Minute)
			first := Summarize(of(InProgress), policy, past, now)
			if first.State != tc.during || first.RequeueAfter != tc.waits {
				t.Errorf("at first: %s in %s", first.State, first.RequeueAfter)
			}
			if then := Summarize(of(InProgress), policy, first.Past, now.Add(tc.waits)); then.State != StateTimedOut {
				t.Errorf("after %s: %s in %s", tc.waits, then.State, then.RequeueAfter)
			}
			if then := Summarize(of(Current), policy, first.Past, now.Add(tc.waits)); then.State != StateHealthy ||
				!then.Past.ObservedSince.IsZero() {
				t.Errorf("healthy: %+v", then)
			}
		})
	}
}

// TestStaleStatesDoNotTimeOut checks that a release does not time out while the states of all objects that are not
// current are stale, and that this time is no time of observation.
func TestStaleStatesDoNotTimeOut(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	long := now.Add(-time.Hour)
	for name, tc := range map[string]struct {
		past   Past
		during State
	}{
		"after its deployment": {Past{DeployedAt: long, ObservedSince: long}, StateProgressing},
		"after it was healthy": {Past{Healthy: true, ProgressingSince: long, ObservedSince: long}, StateHealthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stale := of(Current, InProgress)
			stale[1].IsStale = true
			first := Summarize(stale, Policy{}, tc.past, now)
			if first.State != tc.during || first.Past.Lost || !first.Past.ObservedSince.IsZero() {
				t.Errorf("during an outage: %+v", first)
			}
			then := Summarize(of(Current, InProgress), Policy{}, first.Past, now.Add(time.Minute))
			if then.State != tc.during || then.RequeueAfter != time.Minute {
				t.Errorf("after an outage: %s in %s", then.State, then.RequeueAfter)
			}
			others := append(of(InProgress), stale...)
			if got := Summarize(others, Policy{}, tc.past, now); got.State != StateTimedOut {
				t.Errorf("with an observed object: %s in %s", got.State, got.RequeueAfter)
			}
		})
	}
}

func TestSummarizeIgnoresDeletedJobs(t *testing.T) {
	t.Parallel()
	job := Object{Ref: inventory.Ref{Group: "batch", Version: "v1", Kind: "Job", Name: "j"}, Status: NotFound}
	if got := Summarize([]Object{job}, Policy{FailFast: true}, Past{}, time.Now()); got.State != StateHealthy {
		t.Errorf("got %+v", got)
	}
	job.Status = Failed
	if got := Summarize([]Object{job}, Policy{FailFast: true}, Past{}, time.Now()); got.State != StateFailed {
		t.Errorf("got %+v", got)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	objects := []Object{
		named("Deployment", "b", InProgress, "not all pods are ready"),
		named("Deployment", "a", InProgress, "not all pods exist"),
		named("DaemonSet", "z", Failed, "has failed"),
		named("Service", "s", NotFound, ""),
		named("Service", "t", Current, ""),
		named("Service", "u", Unknown, ""),
	}
	const want = "5 of 6 objects are not healthy: DaemonSet ns/z: has failed; Service ns/s: does not exist; " +
		"Deployment ns/a: not all pods exist; and 2 more"
	for range 20 {
		rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		if got := Summarize(objects, Policy{FailFast: true}, Past{DeployedAt: now}, now); got.Message != want {
			t.Fatalf("got %q", got.Message)
		}
	}
	worked := Past{DeployedAt: now, Healthy: true}
	got := Summarize(of(InProgress), Policy{}, worked, now.Add(time.Hour))
	expected := "1 of 1 objects is not healthy: Deployment ns/0: is in progress, tolerated since 2026-01-02T04:04:05Z"
	if got.Message != expected {
		t.Errorf("got %q", got.Message)
	}
	if again := Summarize(of(InProgress), Policy{}, got.Past,
		now.Add(time.Hour+time.Minute)); again.Message != got.Message {
		t.Errorf("the message changed to %q", again.Message)
	}

	var long []Object
	for i := range 5 {
		name := strings.Repeat("é", 126) + fmt.Sprint(i)
		long = append(long, named("Deployment", name, InProgress, strings.Repeat("ü", 500)))
	}
	for _, past := range []Past{{}, worked} {
		if got := Summarize(long, Policy{}, past, now); len(got.Message) > maxSummaryBytes ||
			!strings.Contains(got.Message, "and 2 more") {
			t.Errorf("a message of %d bytes: %s", len(got.Message), got.Message)
		}
	}
}
