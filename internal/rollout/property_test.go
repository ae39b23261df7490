// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"flag"
	"reflect"
	"slices"
	"testing"
	"time"
)

var (
	worlds    = flag.Int("rollout.worlds", 150, "number of random fleets")
	firstSeed = flag.Int64("rollout.seed", 1, "seed of the first of them")
)

// TestPlanInvariants checks for random events in random order that no plan breaks a limit, an order or a budget.
// When the events end, every Cluster gets its desired release.
func TestPlanInvariants(t *testing.T) {
	t.Parallel()
	for n := range int64(*worlds) {
		seed := *firstSeed + n
		w := newWorld(seed)
		for event := range 120 {
			result := w.checkedPlan(t)
			crash, changesGoal := w.chance(10), result.State.Goal() != w.state.Goal()
			w.carryOut(result, crash)
			if !crash && !changesGoal {
				w.checkQuiet(t)
			}
			if t.Failed() {
				t.Fatalf("seed %d, event %d, %s\n%s", seed, event, describe(w.strategy), describe(w.state))
			}
			for range 1 + w.rng.Intn(4) {
				w.happen()
			}
		}
		w.converge(t)
		if t.Failed() {
			t.Fatalf("seed %d, in the end, %s\n%s", seed, describe(w.strategy), describe(w.state))
		}
	}
}

func describe(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// checkedPlan plans and checks the plan against all rules.
func (w *world) checkedPlan(t *testing.T) Result {
	t.Helper()
	in := w.input()
	result := Plan(in)
	if w.chance(10) {
		checkPure(t, in, w.input(), result)
	}
	if len(result.Steps) != len(in.Clusters) {
		t.Fatalf("%d steps for %d Clusters", len(result.Steps), len(in.Clusters))
	}
	j := &judge{T: t, in: in, result: result, after: append([]Cluster(nil), in.Clusters...)}
	j.carryOut()
	j.checkPhase()
	j.checkSteps()
	j.checkLimits()
	j.checkDeletions()
	j.checkOrder()
	j.checkWaiting()
	return result
}

func checkPure(t *testing.T, in, sameIn Input, result Result) {
	t.Helper()
	if !reflect.DeepEqual(in, sameIn) {
		t.Error("the plan changed its input")
	}
	if again := Plan(sameIn); !reflect.DeepEqual(result, again) {
		t.Errorf("two plans of the same are not the same:\n%s\n%s", describe(result), describe(again))
	}
}

// judge checks a plan. It counts on its own, so that wrong counts of the plan are found.
type judge struct {
	*testing.T
	in     Input
	result Result

	// after are the Clusters after the steps.
	after []Cluster
}

func isServable(c *Cluster) bool {
	return c.Selected && !c.Gone && !c.Deleting && !c.Paused && c.Initialized && c.Pin == nil
}

// isUnread is true for a Cluster whose release HelmOp has not read since a move.
func isUnread(c *Cluster) bool {
	return c.AfterMove && c.Selected && !c.Gone && !c.Deleting && c.Pin == nil && !c.Child.Deleting
}

// isUntried is true for a Cluster whose release HelmOp has not read since a move, and which is not new.
func (j *judge) isUntried(c *Cluster) bool {
	return isUnread(c) && (c.Child.Revision != j.in.State.Revision || !c.Child.Joined && c.Good == nil)
}

// checkPinned checks the step of a Cluster that a user has pinned to a revision.
func (j *judge) checkPinned(i int) {
	c, step := &j.in.Clusters[i], j.result.Steps[i]
	switch step.Action {
	case ActionNone:
		isDue := c.Pin.Release != nil && c.Child.Revision != c.Pin.Revision && c.Pin.Release.Identity == c.Child.Identity
		isServed := c.Selected && !c.Gone && !c.Deleting && !c.Paused && c.Initialized && !c.Child.Deleting
		if isDue && isServed && !c.Defers.Returns {
			j.Errorf("%s does not get the revision to which it is pinned", c.Name)
		}
	case ActionUpdate:
		isPin := step.Source == SourcePin && step.Revision == c.Pin.Revision && step.Pinned
		isOwn := step.Source == SourceOwn && step.Revision == c.Child.Revision && !c.OwnUnapproved
		if !isPin && !isOwn || c.Child.Identity != j.after[i].Child.Identity {
			j.Errorf("%s is pinned: %v", c.Name, step)
		}
	case ActionDelete:
		if c.Selected && !c.Gone {
			j.Errorf("the release of %s is deleted", c.Name)
		}
	default:
		j.Errorf("%s is pinned: %v", c.Name, step)
	}
}

func (j *judge) isGivenUp() bool {
	phase := j.result.State.Phase
	return (phase == PhaseRolledBack || phase == PhaseAborted) && j.result.State.Good != 0
}

func (j *judge) goal(c *Cluster) (*Release, int64) {
	if j.isGivenUp() {
		return c.Good, j.in.State.Good
	}
	return c.Target, j.in.State.Revision
}

// isNew is true for a Cluster that has no child because it is new.
func (j *judge) isNew(c *Cluster) bool { return !c.Known || j.in.State.First }

// has is true if a Cluster has the content of the desired release already, so that its revision changes nothing there.
// A revision that is not approved counts for no Cluster.
func (j *judge) has(release *Release, c *Cluster) bool {
	return release != nil && sameContent(*release, c.Child.Release) && (!j.in.Unapproved || j.isGivenUp())
}

// carryOut applies the steps to the Clusters.
func (j *judge) carryOut() {
	for i, step := range j.result.Steps {
		c := &j.after[i]
		switch step.Action {
		case ActionReplace, ActionDelete:
			child := *c.Child
			child.Deleting, child.UnreachableAtDeletion = true, c.Health == HealthUnreachable
			child.Replaced = step.Action == ActionReplace
			c.Child = &child
			if c.Health != HealthUnreachable {
				c.Health, c.Retrying = HealthProgressing, false
			}
		case ActionCreate, ActionUpdate:
			release := map[Source]*Release{SourceTarget: c.Target, SourceGood: c.Good, SourceOwn: c.Own,
				SourcePrevious: {}}[step.Source]
			if step.Source == SourcePin {
				release = c.Pin.Release
			}
			if release == nil {
				j.Fatalf("%s is assigned %s, which is not known", c.Name, step.Source)
			}
			changes := c.Child == nil || !sameContent(c.Child.Release, *release)
			isDeferred := !changes && c.Child.Deferred
			// A change that begins while a dependency is not ready waits for it, except for returns.
			awaits := !step.Returned &&
				(c.Child == nil || c.Child.AwaitsDependencies || changes && c.Health != HealthProgressing)
			waits := c.Child != nil && c.Child.AwaitsAdoption && !step.Adopts &&
				(step.Joined || step.Returned || c.Child.Revision == step.Revision || sameContent(c.Child.Release, *release))
			c.Child = &Child{Release: *release, Revision: step.Revision, Joined: step.Joined, FailedBefore: step.FailedBefore,
				Deferred: isDeferred, AwaitsDependencies: awaits, AwaitsAdoption: waits}
			if changes && c.Health != HealthUnreachable {
				c.Health, c.Retrying = HealthProgressing, false
			}
		}
	}
}

// isOnItsWay is true for Clusters that the limits count.
func (j *judge) isOnItsWay(c *Cluster) bool {
	if !isServable(c) || c.Child == nil || c.Health == HealthUnreachable || c.Health == HealthFailed {
		return false
	}
	if c.Child.Deleting {
		return true
	}
	if c.Child.AwaitsAdoption {
		return false
	}
	release, revision := j.goal(c)
	if c.Child.Revision != revision && !j.has(release, c) || c.Child.Revision == revision && c.Child.Joined {
		return false
	}
	if c.Health == HealthProgressing {
		return (!c.Blocked || !c.Child.AwaitsDependencies) && (!c.Child.Deferred || !c.Defers.Changes)
	}
	if c.Blocked && release != nil && !sameContent(*release, c.Child.Release) {
		// A change of the Cluster itself is about to be assigned, and waits for the dependency.
		return false
	}
	soak := j.soak(c)
	return soak > 0 && j.in.Now.Sub(c.ReadySince) < soak
}

// isRetrying is true for a failed Cluster in which another attempt is under way.
func (j *judge) isRetrying(c *Cluster) bool {
	if !isServable(c) || c.Child == nil || c.Child.Deleting || !c.Retrying {
		return false
	}
	release, revision := j.goal(c)
	return c.Child.Revision == revision && !c.Child.Joined || c.Child.Revision != revision && j.has(release, c)
}

// isLost is true for a Cluster that became unreachable, possibly because of its update.
func (j *judge) isLost(c *Cluster) bool {
	if j.isGivenUp() || j.result.State.Phase == PhaseComplete {
		return false
	}
	if isUnread(c) {
		has := &c.Child.Release
		if c.Target != nil {
			has = c.Target
		}
		return c.Child.Revision == j.in.State.Revision && !c.Child.Joined && (c.Good == nil || !sameContent(*c.Good, *has))
	}
	if !isServable(c) || c.Child == nil || c.Health != HealthUnreachable {
		return false
	}
	wanted, isGoal := &c.Child.Release, c.Child.Revision == j.in.State.Revision
	if c.Target != nil {
		wanted, isGoal = c.Target, isGoal || j.has(c.Target, c)
	}
	isNew := c.Child.Joined && c.Child.Revision == j.in.State.Revision
	if c.Child.Deleting {
		return c.Child.Replaced
	}
	if c.Child.AwaitsAdoption {
		return false
	}
	return isGoal && !isNew && (c.Good == nil || !sameContent(*c.Good, *wanted))
}

// isLeftBehind is true for a Cluster that returns from an earlier revision before it is updated.
func (j *judge) isLeftBehind(c *Cluster) bool {
	release, _ := j.goal(c)
	if c.Child == nil || !c.Child.GivenUp || c.Child.Revision == j.in.State.Revision || j.has(release, c) ||
		j.result.State.Phase == PhaseComplete || j.in.State.Good == 0 || c.Child.Revision <= j.in.State.Good {
		return false
	}
	if c.Good == nil {
		return c.Child.Previous == j.in.State.Good
	}
	return c.Good.Identity == c.Child.Identity
}

// isLate is true for a Cluster that is in flight to a superseded revision that never completed.
func (j *judge) isLate(c *Cluster) bool {
	release, revision := j.goal(c)
	if c.Child == nil || c.Health != HealthProgressing && !c.Retrying &&
		(c.Own == nil || sameContent(*c.Own, c.Child.Release) || c.OwnUnapproved) {
		return false
	}
	return isServable(c) && !c.Child.Deleting && c.Health != HealthUnreachable && !c.Child.Joined &&
		!c.Child.AwaitsAdoption && !c.Blocked && !c.GoalUnapproved && !c.Defers.Changes &&
		c.Child.Revision > j.in.State.Good && c.Child.Revision != revision && c.Child.Revision != j.in.State.Revision &&
		release != nil && !j.isOnItsWay(c) && !j.isLeftBehind(c)
}

// isPaced reports whether limits and waves apply to a step. They apply if the step changes the release in a Cluster,
// unless the Cluster itself changed.
func (j *judge) isPaced(i int) bool {
	c, step := &j.in.Clusters[i], j.result.Steps[i]
	if !isServable(c) || c.Child == nil || step.Action != ActionUpdate && step.Action != ActionReplace {
		return false
	}
	release, revision := j.goal(c)
	switch {
	case step.Adopts:
		return true
	case step.Action == ActionUpdate && j.after[i].Child.AwaitsAdoption:
		// The release does not change before its adoption.
		return false
	case c.Child.Revision == revision, step.Source == SourceOwn, step.Returned:
		return false
	case j.isGivenUp() && c.Child.Revision == j.in.State.Revision:
		return false
	case step.Action == ActionReplace && c.Own != nil && c.Own.Identity != c.Child.Identity:
		return false
	default:
		return release == nil || !sameContent(*release, c.Child.Release) && (c.Own == nil || !sameContent(*release, *c.Own))
	}
}

func (j *judge) checkPhase() {
	before, after := j.in.State, j.result.State
	if after.Revision != before.Revision || after.Good != before.Good {
		j.Errorf("the plan turned %v into %v", before, after)
	}
	ended := before.Phase == PhaseComplete || before.Phase == PhaseRolledBack || before.Phase == PhaseAborted
	if ended && after.Phase != before.Phase {
		j.Errorf("phase %s became %s", before.Phase, after.Phase)
	}
	selected, failed, done, unfinished, untried := 0, 0, 0, 0, 0
	for i := range j.in.Clusters {
		c := &j.in.Clusters[i]
		if c.Selected && !c.Gone {
			selected++
		}
		if j.isFailed(c) {
			failed++
		}
		if j.isUntried(c) {
			untried++
		}
		if isServable(c) && c.Child != nil && c.Health == HealthReady && !j.isOnItsWay(c) {
			done++
		}
		if j.isOnItsWay(c) {
			unfinished++
		}
	}
	reached := j.in.Strategy.Budgeted && failed-min(failed, before.Acknowledged) >= j.in.Strategy.MaxFailures.Of(selected)
	if reached && !ended && !j.in.Requests.Continue && (after.Phase == PhaseProgressing || after.Phase == PhaseComplete) {
		j.Errorf("phase %s although %d of %d failed, %d of them acknowledged", after.Phase, failed, selected,
			before.Acknowledged)
	}
	if reached && !ended && !j.in.Requests.Continue && j.in.Strategy.Rollback && before.Good != 0 && !j.isGivenUp() {
		j.Errorf("phase %s instead of a return to HelmOp revision %d", after.Phase, before.Good)
	}
	if before.Phase == PhasePaused && (after.Phase == PhaseProgressing || after.Phase == PhaseComplete) &&
		!j.in.Requests.Continue {
		j.Error("the rollout continues without a request")
	}
	if !ended && after.Phase == PhaseComplete && (done == 0 || unfinished > 0) {
		j.Errorf("complete although %d Clusters are done and %d on their way", done, unfinished)
	}
	if !ended && after.Phase == PhaseComplete && done < untried {
		j.Errorf("complete although %d Clusters are done, and the releases of %d are not read after a move", done, untried)
	}
	if unread := j.unread(); !ended && after.Phase == PhaseComplete && done < unread {
		j.Errorf("complete although %d Clusters are done, and HelmOp does not manage the release in %d", done, unread)
	}
	if (after.Phase == PhasePaused || j.isGivenUp()) && after.Reason == "" {
		j.Error("the phase has no reason")
	}
}

// unread counts the Clusters that may have the release of a lost child, which HelmOp does not manage yet.
func (j *judge) unread() (n int) {
	for i := range j.in.Clusters {
		c := &j.in.Clusters[i]
		switch {
		case !j.in.State.First || !c.Selected || c.Gone || c.Deleting || c.Pin != nil:
		case c.Child == nil && c.Paused:
			n++
		case j.isConflicting(c), isServable(c) && c.Child != nil && c.Child.Joined && !c.Child.Deleting &&
			c.Child.Unread && c.Health == HealthUnreachable && !c.WasReady && c.Target != nil &&
			c.Child.Revision == j.in.State.Revision:
			n++
		}
	}
	return n
}

// isConflicting is true for a new Cluster of the first revision with the release of another owner.
func (j *judge) isConflicting(c *Cluster) bool {
	return j.in.State.First && isServable(c) && c.Child != nil && c.Child.Joined && c.Child.Foreign &&
		!c.Child.Deleting && c.Health == HealthFailed && c.Target != nil && sameContent(*c.Target, c.Child.Release) &&
		c.Child.Revision == j.in.State.Revision
}

// isFailed reports whether the failure budget counts a Cluster as failed for the current revision, whatever the goal of
// the plan is.
func (j *judge) isFailed(c *Cluster) bool {
	before := c.Child != nil && (c.Child.FailedBefore && c.Health != HealthReady ||
		c.Health == HealthFailed && (c.Child.Revision == j.in.State.Good || c.Child.Revision == 0))
	switch {
	case !isServable(c) || c.Child != nil && c.Child.Deleting || c.Child == nil && j.isNew(c):
		return false
	case c.Child != nil && c.Child.Revision == j.in.State.Revision:
		return c.Health == HealthFailed && !c.Child.Joined && !c.Child.FailedBefore &&
			(c.Target == nil || sameContent(*c.Target, c.Child.Release) || c.GoalUnapproved || c.Defers.Changes)
	case c.Target == nil:
		return c.TargetInvalid && !before && c.Known
	case c.Child != nil && j.has(c.Target, c):
		return c.Health == HealthFailed && !before
	default:
		return false
	}
}

func (j *judge) checkSteps() {
	for i, step := range j.result.Steps {
		c := &j.in.Clusters[i]
		if c.Pin != nil {
			j.checkPinned(i)
			j.checkMaintenance(i)
			continue
		}
		switch {
		case step.Cluster != c.Name || step.Why == "":
			j.Errorf("step %v for %s", step, c.Name)
		case step.Action == ActionNone:
			j.checkNone(c, step)
		case step.Action == ActionDelete:
			if !c.Gone && (c.Selected || c.Paused || c.Deleting) || c.Child.Deleting {
				j.Errorf("the release of %s is deleted", c.Name)
			}
		case !isServable(c) || c.Child != nil && c.Child.Deleting:
			j.Errorf("%s is served: %v", c.Name, step)
		case step.Adopts && (!c.Child.AwaitsAdoption || step.Joined):
			j.Errorf("%s adopts although it does not wait for that: %v", c.Name, step)
		case c.Child != nil && c.Child.AwaitsAdoption && step.Action == ActionUpdate && !step.Adopts &&
			!j.after[i].Child.AwaitsAdoption:
			j.Errorf("%s adopts out of turn: %v", c.Name, step)
		case step.Returned && step.Revision >= c.Child.Revision:
			j.Errorf("%s returns to a revision that it never had: %v", c.Name, step)
		case step.Adopts:
		case step.Action == ActionUpdate && c.Child.Release == j.after[i].Child.Release && c.Child.Revision == step.Revision:
			j.Errorf("%s is assigned what it was assigned: %v", c.Name, step)
		case step.Action == ActionUpdate && c.Child.Identity != j.after[i].Child.Identity && step.Source != SourcePrevious:
			j.Errorf("the identity of %s changes under its feet: %v", c.Name, step)
		}
		child := j.after[i].Child
		release, revision := j.goal(c)
		assigned := child != nil && !child.Deleting && child.Revision == revision &&
			(release == nil && j.isGivenUp() || release != nil && *release == child.Release)
		if step.Assigned != assigned {
			j.Errorf("%s is assigned %v: %v", c.Name, assigned, step)
		}
		if j.isPaced(i) && (c.Health == HealthUnreachable || c.Blocked) {
			j.Errorf("%s is assigned though it is %s, blocked %v: %v", c.Name, c.Health, c.Blocked, step)
		}
		if j.isPaced(i) && (j.in.Strategy.Paused || j.result.State.Phase == PhasePaused) {
			j.Errorf("%s is assigned though the rollout is held: %v", c.Name, step)
		}
		j.checkApproved(i)
		j.checkMaintenance(i)
		isWanted := step.Source == SourceTarget && (step.Action == ActionCreate || step.Action == ActionUpdate)
		if isWanted && j.isGivenUp() {
			j.Errorf("%s is assigned a revision that was given up: %v", c.Name, step)
		}
	}
}

// checkApproved checks that a step changes nothing that is not approved.
func (j *judge) checkApproved(i int) {
	c, step := &j.in.Clusters[i], j.result.Steps[i]
	if step.Action == ActionNone || step.Action == ActionDelete || step.Returned || j.changesGoal() {
		return
	}
	before := int64(-1)
	if c.Child != nil {
		before = c.Child.Revision
	}
	_, goal := j.goal(c)
	changes := step.Action == ActionReplace || c.Child == nil || !sameContent(c.Child.Release, j.after[i].Child.Release)
	switch {
	case j.in.Unapproved && step.Revision == j.in.State.Revision && before != step.Revision:
		j.Errorf("%s is assigned a revision that is not approved: %v", c.Name, step)
	case changes && step.Source == SourceOwn && c.OwnUnapproved,
		changes && step.Source == SourceTarget && c.GoalUnapproved,
		changes && step.Revision == goal && before == goal && c.GoalUnapproved:
		j.Errorf("%s is assigned a release that is not approved: %v", c.Name, step)
	}
}

// checkMaintenance checks that a step changes nothing that waits for maintenance.
func (j *judge) checkMaintenance(i int) {
	c, step := &j.in.Clusters[i], j.result.Steps[i]
	isClosed := c.Defers.Changes
	isReturn := step.Source == SourceGood || step.Source == SourcePrevious || step.Source == SourcePin ||
		step.Action == ActionReplace && c.Good != nil && c.Good.Identity != c.Child.Identity
	switch {
	case step.Action == ActionNone || step.Action == ActionDelete && c.Gone:
		return
	case c.Child == nil:
		// An installation that follows a deletion by the plan is not deferred.
		isClosed = c.Defers.Installations && j.isNew(c)
	case isReturn && (c.Pin != nil || step.Returned || j.isGivenUp() && c.Child.Revision == j.in.State.Revision):
		isClosed = c.Defers.Returns
	}
	if isClosed && (c.Child == nil || step.Action != ActionUpdate ||
		!sameContent(c.Child.Release, j.after[i].Child.Release)) {
		j.Errorf("%s is changed though it waits for maintenance: %v", c.Name, step)
	}
}

// changesGoal is true for a plan that changes the goal. It is not carried out if approvals are required.
func (j *judge) changesGoal() bool { return j.result.State.Goal() != j.in.State.Goal() }

// checkNone checks that steps that must not wait do not wait.
func (j *judge) checkNone(c *Cluster, step Step) {
	if !isServable(c) || c.Child != nil && c.Child.Deleting {
		return
	}
	release, revision := j.goal(c)
	if step.Unapproved {
		if isHeld := j.in.Unapproved && !j.isGivenUp(); !isHeld && !c.GoalUnapproved && !c.OwnUnapproved &&
			!j.changesGoal() {
			j.Errorf("%s waits for an approval that it does not need: %s", c.Name, step.Why)
		}
		return
	}
	if step.Deferred {
		if !c.Defers.Changes || c.Child == nil && !j.isNew(c) {
			j.Errorf("%s waits for maintenance that it does not need: %s", c.Name, step.Why)
		}
		if opens := c.Defers.Opens; !opens.IsZero() && (j.result.RequeueAfter <= 0 ||
			j.in.Now.Add(j.result.RequeueAfter).After(opens)) {
			j.Errorf("the next plan is after %s opens: %s", c.Name, j.result.RequeueAfter)
		}
		return
	}
	switch {
	case c.Child == nil && release != nil && !j.mayWait(c):
		j.Errorf("%s is new and waits: %s", c.Name, step.Why)
	case c.Child == nil:
	case j.isGivenUp() && c.Child.Revision == j.in.State.Revision &&
		(release != nil || c.Child.Previous == j.in.State.Good):
		// The replacement of a ready release waits for a slot.
		if release == nil || c.Child.Identity == release.Identity || c.Health != HealthReady {
			j.Errorf("%s does not return: %s", c.Name, step.Why)
		}
	case j.isLeftBehind(c):
		j.Errorf("%s stays at an earlier revision that was given up: %s", c.Name, step.Why)
	case release != nil && c.Child.Revision == revision && *release != c.Child.Release &&
		release.Identity == c.Child.Identity:
		j.Errorf("%s changed and is not assigned: %s", c.Name, step.Why)
	case c.Own != nil && c.Child.Revision != revision && *c.Own != c.Child.Release && c.Own.Identity == c.Child.Identity:
		j.Errorf("%s changed and is not assigned under its own revision: %s", c.Name, step.Why)
	}
}

// mayWait reports whether a Cluster without a child may get nothing although its desired release is known. Either the
// good release is unknown and the Cluster is not new, or the current revision has spent its budget.
func (j *judge) mayWait(c *Cluster) bool {
	state, isNew := j.result.State, j.isNew(c)
	if j.in.Unapproved && !j.isGivenUp() && (state.Good == 0 || c.Good == nil) {
		return true
	}
	mayTakeCurrent := state.Phase == PhaseProgressing && !j.in.Strategy.Paused && c.Wave <= j.result.Progress.Wave
	return state.Good != 0 && c.Good == nil && state.Phase != PhaseComplete && !mayTakeCurrent &&
		(!isNew || state.Phase == PhasePaused)
}

func (j *judge) checkLimits() {
	isTight, late := false, 0
	assigned, onTheirWay, selected := make([]int, len(j.in.Strategy.Waves)+1), make([]int, len(j.in.Strategy.Waves)+1),
		make([]int, len(j.in.Strategy.Waves)+1)
	dark, done := make([]int, len(assigned)), make([]int, len(assigned))
	sum := func(counts []int) (n int) {
		for _, count := range counts {
			n += count
		}
		return n
	}
	for i := range j.after {
		c := &j.after[i]
		if j.isPaced(i) {
			assigned[c.Wave]++
			isTight = isTight || !j.isLate(&j.in.Clusters[i])
		}
		if j.isOnItsWay(c) || j.isLost(c) || j.isRetrying(c) {
			onTheirWay[c.Wave]++
		}
		if j.wasDone(c) {
			dark[c.Wave]++
		}
		if j.isDone(c) {
			done[c.Wave]++
		}
		if j.isLate(&j.in.Clusters[i]) && j.isLate(c) {
			late++
		}
		if c.Selected && !c.Gone {
			selected[c.Wave]++
		}
	}
	holding := sum(onTheirWay) - min(sum(dark), sum(done))
	if limit := j.in.Strategy.MaxUnavailable.Of(sum(selected)); sum(assigned) > 0 && holding > limit {
		j.Errorf("%d assigned, and %d on their way, limit %d", sum(assigned), holding, limit)
	} else if isTight && holding+late > limit {
		j.Errorf("%d assigned, %d on their way and %d to an earlier revision, limit %d", sum(assigned), holding, late, limit)
	}
	for i, wave := range j.in.Strategy.Waves {
		if limit := wave.MaxUnavailable.Of(selected[i]); assigned[i] > 0 && onTheirWay[i]-min(dark[i], done[i]) > limit {
			j.Errorf("%d of wave %d assigned, and %d on their way of whom %d were done, limit %d", assigned[i], i, onTheirWay[i],
				dark[i], limit)
		}
	}
}

// checkOrder checks that no wave begins before the earlier ones are done and, if necessary, promoted.
func (j *judge) checkOrder() {
	if j.result.State.Phase != PhaseProgressing {
		return
	}
	first := waveNamed(j.in.Strategy.Waves, j.in.State.Passed) + 1
	for i := range j.in.Clusters {
		if !j.isPaced(i) {
			continue
		}
		for wave := first; wave < j.in.Clusters[i].Wave; wave++ {
			j.checkPassed(wave, j.in.Clusters[i].Name)
		}
		if wave := j.in.Clusters[i].Wave; wave > 0 && waveNamed(j.in.Strategy.Waves, j.result.State.Passed) < wave-1 {
			j.Errorf("%s is assigned, and wave %d is not left behind", j.in.Clusters[i].Name, wave-1)
		}
	}
}

func (j *judge) checkPassed(wave int, assigned string) {
	done, counting := 0, 0
	promoted := waveNamed(j.in.Strategy.Waves, j.in.Requests.Promoted) >= wave
	for i := range j.in.Clusters {
		c := &j.in.Clusters[i]
		if c.Wave == wave && j.isUntried(c) {
			counting++
		}
		if c.Wave != wave || !isServable(c) || c.Health == HealthUnreachable && !j.isLost(c) ||
			c.Child == nil && j.isNew(c) {
			continue
		}
		// A Cluster whose window opens at a known time delays its wave until the wave is promoted.
		mayPass := c.Defers.Changes && (promoted || c.Defers.Opens.IsZero()) && c.Child != nil
		isGoal := c.Child != nil && (c.Child.Revision == j.in.State.Revision || j.has(c.Target, c))
		isJoined := c.Child != nil && c.Child.Joined && (c.Child.Revision == j.in.State.Revision ||
			(c.Child.Unobserved || c.Child.AwaitsAdoption) && j.has(c.Target, c))
		awaits := isGoal && c.Child.AwaitsAdoption
		if (isJoined || awaits) && !c.Blocked && !c.GoalUnapproved && c.Target != nil && !c.Child.Deleting &&
			(c.Child.AwaitsAdoption && !mayPass || c.Child.Unobserved && c.Health == HealthProgressing) {
			j.Errorf("%s is assigned before the release of %s of wave %d is adopted", assigned, c.Name, wave)
		}
		if j.isConflicting(c) {
			counting++
		}
		if isJoined || !isGoal && c.TargetInvalid && !c.Known {
			continue
		}
		counting++
		if j.isOnItsWay(c) || !isGoal && !c.Blocked && !c.GoalUnapproved && c.Target != nil &&
			(c.Child == nil || !c.Child.Deleting) && !mayPass {
			j.Errorf("%s is assigned before %s of wave %d is done", assigned, c.Name, wave)
		}
		if isGoal && c.Health == HealthReady {
			done++
		}
	}
	if j.in.Strategy.Waves[wave].Manual && !promoted {
		j.Errorf("%s is assigned before wave %d is promoted", assigned, wave)
	}
	if counting > 0 && done == 0 && !promoted && j.result.State.Acknowledged == 0 {
		j.Errorf("%s is assigned, and no Cluster of wave %d is done", assigned, wave)
	}
}

// checkWaiting checks that a rollout without progress has a text about what it waits for.
func (j *judge) checkWaiting() {
	state, progress := j.result.State, j.result.Progress
	if (state.Phase == PhaseProgressing || state.Phase == PhasePaused) && progress.WaitingFor == "" {
		j.Errorf("nothing is waited for in phase %s: %s", state.Phase, describe(progress))
	}
	updated := 0
	for i := range j.after {
		if c := &j.after[i]; c.Selected && !c.Gone && !c.Deleting && c.Child != nil && !c.Child.Deleting &&
			c.Child.Revision == state.Revision && !j.awaitsAdoption(i) {
			updated++
		}
	}
	if progress.Updated != updated {
		j.Errorf("%d are updated, not %d", updated, progress.Updated)
	}
}

// awaitsAdoption is true for a Cluster whose release waits for its adoption after the plan, too.
func (j *judge) awaitsAdoption(i int) bool {
	child := j.in.Clusters[i].Child
	return child != nil && child.AwaitsAdoption && !j.result.Steps[i].Adopts
}

// checkQuiet checks that a plan after carrying out a plan has no more steps.
func (w *world) checkQuiet(t *testing.T) {
	t.Helper()
	for _, step := range Plan(w.input()).Steps {
		if step.Action != ActionNone {
			t.Errorf("once carried out, the plan goes on: %v", step)
		}
	}
}

// converge ends all trouble and checks that every Cluster gets its desired release.
func (w *world) converge(t *testing.T) {
	t.Helper()
	for rounds, quiet := 0, 0; quiet < 2; rounds++ {
		w.calm()
		w.requests.Continue = w.state.Phase == PhasePaused
		result := w.checkedPlan(t)
		changesGoal := result.State.Goal() != w.state.Goal()
		w.carryOut(result, false)
		w.now = w.now.Add(max(result.RequeueAfter, time.Second))
		quiet++
		if changesGoal || result.RequeueAfter > 0 ||
			slices.ContainsFunc(result.Steps, func(s Step) bool { return s.Action != ActionNone }) {
			quiet = 0
		}
		if rounds > 20*(len(w.clusters)+5) {
			t.Fatalf("no end: %s", describe(result))
		}
	}
	servable := 0
	for i, c := range w.input().Clusters {
		if !c.Selected && !c.Gone && c.Child != nil {
			t.Errorf("%s keeps its release without being selected: %s", c.Name, describe(w.clusters[i]))
		}
		if !isServable(&c) {
			continue
		}
		servable++
		want, revision := c.Target, w.state.Revision
		if w.state.Phase == PhaseRolledBack || w.state.Phase == PhaseAborted {
			want, revision = c.Good, w.state.Good
		}
		if c.Child == nil || c.Child.Release != *want || c.Child.Revision != revision {
			t.Errorf("%s does not reach HelmOp revision %d: %s", c.Name, revision, describe(w.clusters[i]))
		}
	}
	if servable > 0 && w.state.Phase != PhaseComplete && w.state.Phase != PhaseRolledBack &&
		w.state.Phase != PhaseAborted {
		t.Errorf("the rollout does not end: %s", describe(Plan(w.input()).Progress))
	}
}
