// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// In these tests, the current revision is 7 and the last known good revision is 6, unless a case sets others. The names
// of releases contain their revision.

var testNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func releaseOf(revision int64) *Release {
	return &Release{Identity: "ns/a", Content: strconv.FormatInt(revision, 10)}
}

// fleetMember returns a Cluster of a wave with a revision; a negative revision means without a child. A ready Cluster
// has been ready for an hour.
func fleetMember(name string, wave int, revision int64, health Health, changes ...func(*Cluster)) Cluster {
	c := Cluster{
		Name: name, Wave: wave, Selected: true, Initialized: true, Known: true,
		Target: releaseOf(7), Good: releaseOf(6), Health: health,
	}
	if revision >= 0 {
		c.Child = &Child{Release: *releaseOf(revision), Revision: revision}
		c.Own = releaseOf(revision)
	}
	if revision == 7 {
		c.Child.Previous = 6
	}
	if health == HealthReady {
		c.ReadySince = testNow.Add(-time.Hour)
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func blocked(c *Cluster)   { c.Blocked = true }
func awaiting(c *Cluster)  { c.Child.AwaitsDependencies = true }
func retrying(c *Cluster)  { c.Retrying = true }
func paused(c *Cluster)    { c.Paused = true }
func unknown(c *Cluster)   { c.Target = nil }
func invalid(c *Cluster)   { c.Target, c.TargetInvalid = nil, true }
func stranger(c *Cluster)  { c.Known = false }
func joined(c *Cluster)    { c.Child.Joined = true }
func excused(c *Cluster)   { c.Child.FailedBefore = true }
func ending(c *Cluster)    { c.Child.Deleting = true }
func replaced(c *Cluster)  { c.Child.Deleting, c.Child.Replaced = true, true }
func wasDone(c *Cluster)   { c.WasReady, c.ReadyFor = true, time.Hour }
func noGood(c *Cluster)    { c.Good = nil }
func sameAsOwn(c *Cluster) { c.Target = c.Own }

func goodPending(c *Cluster) { c.Good, c.GoodPending = nil, true }

func hasFailures(c *Cluster) { c.Child.HasFailures = true }

// afterMove is a Cluster whose control plane is not initialized again after a move of its child.
func afterMove(c *Cluster) {
	c.Initialized, c.AfterMove, c.Target, c.Good, c.Own = false, true, nil, nil, nil
}

// pausedByMove is a Cluster that clusterctl has not unpaused yet.
func pausedByMove(c *Cluster) { c.Paused, c.AfterMove = true, true }

// moved changes the Cluster itself, in the same way under all revisions.
func moved(c *Cluster) {
	for _, release := range []**Release{&c.Target, &c.Good, &c.Own} {
		if *release != nil {
			*release = &Release{Identity: (*release).Identity, Content: (*release).Content + " moved"}
		}
	}
}

// renamed gives the release another name under the current revision.
func renamed(c *Cluster) { c.Target = &Release{Identity: "ns/b", Content: "7"} }

func readyFor(d time.Duration) func(*Cluster) {
	return func(c *Cluster) { c.ReadySince = testNow.Add(-d) }
}

// planTest is the input of a plan and its expected result.
type planTest struct {
	strategy Strategy
	state    State
	requests Requests
	clusters []Cluster

	// unapproved is Input.Unapproved.
	unapproved bool

	// want are the steps that change something, for example "a: Update Target 7".
	want string

	phase      Phase
	waitingFor string
	promote    string
	requeue    time.Duration

	// check checks the rest of the result.
	check func(*testing.T, Result)
}

func (tc planTest) run(t *testing.T) {
	t.Parallel()
	if tc.state.Revision == 0 {
		tc.state.Revision = 7
	}
	if tc.state.Good == 0 && tc.state.Revision == 7 {
		tc.state.Good = 6
	}
	if tc.state.Good < 0 {
		tc.state.Good = 0
	}
	if tc.phase == "" {
		tc.phase = PhaseProgressing
	}
	result := Plan(Input{Strategy: tc.strategy, State: tc.state, Requests: tc.requests, Clusters: tc.clusters,
		Unapproved: tc.unapproved, Now: testNow})
	if got := stepsOf(result); got != tc.want {
		t.Errorf("steps:\n%s\nwant:\n%s", got, tc.want)
	}
	if result.State.Phase != tc.phase {
		t.Errorf("phase %s (%s), want %s", result.State.Phase, result.State.Reason, tc.phase)
	}
	if result.Progress.WaitingFor != tc.waitingFor {
		t.Errorf("it waits for\n%s\nwant\n%s", result.Progress.WaitingFor, tc.waitingFor)
	}
	if result.Progress.Promote != tc.promote {
		t.Errorf("it waits for the promotion of %q, want %q", result.Progress.Promote, tc.promote)
	}
	if result.RequeueAfter != tc.requeue {
		t.Errorf("it is made again after %s, want %s", result.RequeueAfter, tc.requeue)
	}
	if tc.check != nil {
		tc.check(t, result)
	}
}

func stepsOf(result Result) string {
	var out []string
	for _, s := range result.Steps {
		if s.Action == ActionNone {
			continue
		}
		text := fmt.Sprintf("%s: %s", s.Cluster, s.Action)
		if s.Action == ActionCreate || s.Action == ActionUpdate {
			text += fmt.Sprintf(" %s %d", s.Source, s.Revision)
		}
		if s.Joined {
			text += " joined"
		}
		if s.FailedBefore {
			text += " failedBefore"
		}
		if s.Returned {
			text += " returned"
		}
		if s.Pinned {
			text += " pinned"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func wantProgress(updated, done, inFlight, failed int) func(*testing.T, Result) {
	return func(t *testing.T, result Result) {
		t.Helper()
		p := result.Progress
		if p.Updated != updated || p.Done != done || p.InFlight != inFlight || p.Failed != failed {
			t.Errorf("progress %+v, want %d updated, %d done, %d on their way, %d failed", p, updated, done, inFlight, failed)
		}
	}
}

func wantPassed(wave string) func(*testing.T, Result) {
	return func(t *testing.T, result Result) {
		t.Helper()
		if result.State.Passed != wave {
			t.Errorf("wave %q is left behind, want %q", result.State.Passed, wave)
		}
	}
}

// canary is a first wave.
func canary(wave Wave) Strategy {
	wave.Name = "canary"
	return Strategy{Waves: []Wave{wave}}
}
