/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/types"
)

// Action is what a release needs next. The set is closed.
type Action string

const (
	// ActionNone means that there is nothing to do.
	ActionNone Action = "None"
	// ActionInstall installs the release.
	ActionInstall Action = "Install"
	// ActionUpgrade upgrades the release.
	ActionUpgrade Action = "Upgrade"
	// ActionRecoverThenInstall resolves a pending record, then installs.
	ActionRecoverThenInstall Action = "RecoverThenInstall"
	// ActionRecoverThenUpgrade resolves a pending record, then upgrades.
	ActionRecoverThenUpgrade Action = "RecoverThenUpgrade"
	// ActionRollback returns to the revision RollbackTo. Observe and decide again after it.
	ActionRollback Action = "Rollback"
	// ActionTest runs the chart's tests on the newest revision.
	ActionTest Action = "Test"
	// ActionCorrectDrift puts objects right that differ from the newest revision's manifest. Act does not do it.
	ActionCorrectDrift Action = "CorrectDrift"
	// ActionUninstall uninstalls the release. Where a release is desired, observe and decide again after it.
	ActionUninstall Action = "Uninstall"
	// ActionWait means that another holder may be at work, that the next try is not due, or that the cluster did not
	// answer: look again after RequeueAfter.
	ActionWait Action = "Wait"
	// ActionStall means that nothing is tried any more until what is desired changes or somebody asks to try again.
	ActionStall Action = "Stall"
	// ActionRefuse means that the release belongs to somebody else.
	ActionRefuse Action = "Refuse"
)

// Recovery is how a pending record is resolved.
type Recovery string

const (
	// RecoverNothing is for decisions which have no pending record to resolve.
	RecoverNothing Recovery = ""
	// RecoverReplace does the same again under the same revision. The pending record stays, as the proof that something
	// began, until the new one takes its place.
	RecoverReplace Recovery = "Replace"
	// RecoverFail marks the pending record, or one that Helm by hand could not uninstall, as failed, and what is done next is another
	// revision. What it had created stays known to Helm.
	RecoverFail Recovery = "Fail"
)

// Reasons of decisions.
const (
	ReasonInSync               = "InSync"
	ReasonNotInstalled         = "NotInstalled"
	ReasonArtifactChanged      = "ArtifactChanged"
	ReasonValuesChanged        = "ValuesChanged"
	ReasonOptionsChanged       = "OptionsChanged"
	ReasonPostRenderChanged    = "PostRenderChanged"
	ReasonNotDeployed          = "NotDeployed"
	ReasonRetryFailed          = "RetryFailed"
	ReasonChangedByAnotherHand = "ChangedByAnotherHand"
	// ReasonObjectsMissing is that of an upgrade to the same, which creates objects that were deleted.
	ReasonObjectsMissing     = "ObjectsMissing"
	ReasonAdopt              = "Adopt"
	ReasonInterrupted        = "Interrupted"
	ReasonPendingTimeout     = "PendingTimeout"
	ReasonPendingElsewhere   = "PendingElsewhere"
	ReasonFinishUninstall    = "FinishUninstall"
	ReasonConflict           = "Conflict"
	ReasonUninstall          = "Uninstall"
	ReasonAlreadyUninstalled = "AlreadyUninstalled"
	ReasonUnreachable        = "Unreachable"

	// ReasonBackoff is the wait before what failed is tried again.
	ReasonBackoff = "Backoff"
	// ReasonRetriesExhausted is that of ActionStall, whatever failed.
	ReasonRetriesExhausted = "RetriesExhausted"
	// ReasonRollbackFailed is that of ActionStall where a rollback failed too often, and of further rollbacks before.
	ReasonRollbackFailed = "RollbackFailed"
	// ReasonRemediateUninstall is that of the uninstall of what a failed install left.
	ReasonRemediateUninstall = "RemediateUninstall"
	// ReasonUpgradeFailed, ReasonUnhealthy and ReasonTestsFailed are those of rollbacks; the last also that of tests that
	// run again.
	ReasonUpgradeFailed = "UpgradeFailed"
	ReasonUnhealthy     = "Unhealthy"
	ReasonTestsFailed   = "TestsFailed"
	// ReasonNoRollbackTarget is that of an upgrade that is tried again without a rollback, because there is nothing to
	// return to.
	ReasonNoRollbackTarget = "NoRollbackTarget"
	// ReasonUntested is that of tests that did not run yet.
	ReasonUntested = "Untested"
	// ReasonDrifted is that of objects that differ, corrected or not.
	ReasonDrifted = "Drifted"
	// ReasonReturn is that of a return, see [Desired].Return.
	ReasonReturn = "Return"
)

// Decision is what a release needs next, and why.
type Decision struct {
	// Action is what to do.
	Action Action
	// State is the state that was found.
	State State
	// Reason is one of the Reason constants: a word for programs.
	Reason string
	// Message says the same to people. It holds no values.
	Message string
	// FromRevision is the newest revision found, zero where there is none.
	FromRevision int
	// FromID is the [Record].ID of FromRevision.
	FromID types.UID
	// ToRevision is the revision that the action is expected to make; equal to FromRevision where it makes none.
	ToRevision int
	// Recovery says how the pending record FromRevision is resolved first.
	Recovery Recovery
	// RollbackTo is the revision to return to, set with ActionRollback only.
	RollbackTo int
	// Returns says of ActionRollback that what it goes back to is what is desired: a success makes the release in sync.
	Returns bool
	// Failures is how many tries at what is desired failed so far. Act notes it on the record it makes.
	Failures int
	// RollbackFailures is how many rollbacks in a row failed so far.
	RollbackFailures int
	// Interruptions is how many tries in a row at what is desired were cut off so far. Act notes it on the record it makes.
	Interruptions int
	// Unproven is the newest of the revisions known never to have been healthy, zero where none is. Act notes it on the record it makes.
	Unproven int
	// Keep is a revision that must stay in the history, whatever its limit, zero where none must: a rollback may need it.
	Keep int
	// Request is the last request to try, as a label value. Act notes it on the record it makes.
	Request string
	// RequeueAfter is when to look again, set with ActionWait only.
	RequeueAfter time.Duration
	// NextTryAt is when what failed is tried again, set with ReasonBackoff only.
	NextTryAt time.Time
}

// situation is all that a decision is made from.
type situation struct {
	obs     Observation
	newest  Record
	desired Desired
	policy  Policy
	past    Past
	now     time.Time
}

// Decide says what a release needs to become as desired. It is a pure function.
//
// The caller must not call it while an action of this process runs on the release: a pending record with the
// desired UID is taken for one that a predecessor left behind.
func Decide(obs Observation, desired Desired, policy Policy, past Past, now time.Time) Decision {
	newest, _ := obs.Newest()
	s := situation{obs: obs, newest: newest, desired: desired, policy: policy, past: past.since(newest, desired), now: now}
	d := Decision{
		State: obs.State(desired), FromRevision: newest.Revision, FromID: newest.ID, ToRevision: newest.Revision, Failures: s.failures(),
		Interruptions: s.interruptions(), Unproven: s.unproven(), Request: digestLabel(past.Request),
	}
	d.Keep = s.keeps()
	if desired.Return {
		s = s.withoutRemediation()
	}
	decided := s.decide(d)
	if past.Drifted {
		return s.decideDrift(decided)
	}
	return decided
}

// since returns the past without a request that the newest record answers already. The caller then did not get to remember
// that try: what it remembers of failures is older than the request, and the record alone tells what came after. Without
// this, a try that ends the process each time would be asked for anew each time.
func (p Past) since(newest Record, desired Desired) Past {
	if (p.RetryRequested || p.Restore) && newest.answers(p.Request, desired) {
		p.RetryRequested, p.Restore, p.Failures, p.FailedAt = false, false, 0, time.Time{}
	}
	if release.Status(newest.Status).IsPending() && newest.madeFrom(desired) && newest.ChangedAt.After(p.FailedAt) {
		// The caller counted this very try before it began. The record says how many tries failed before it.
		p.Failures, p.FailedAt = 0, time.Time{}
	}
	return p
}

func (s situation) decide(d Decision) Decision {
	revision := s.newest.Revision
	switch d.State {
	case StateForeign:
		if !s.policy.TakeOwnership {
			return d.refuse(s.obs, s.desired)
		}
		if s.past.WasOurs && s.obs.Owner() != "" {
			return d.refuseLost(s.obs, s.desired)
		}
		return decideAdoption(d, s.newest, s.policy, s.now)
	case StateAbsent:
		return s.install(d, "The release is not installed.")
	case StateUninstalled:
		return s.install(d, "The release is uninstalled; its history was kept.")
	case StateInSync:
		return s.decideInSync(d)
	case StateOutOfSync:
		return s.decideOutOfSync(d)
	case StateFailed:
		return s.decideFailed(d)
	case StateRolledBack:
		return s.retry(d, s.policy.Upgrade, ActionUpgrade, ReasonRetryFailed,
			fmt.Sprintf("The upgrade failed, and revision %d is the return to what worked before.", revision))
	case StateUnmanaged:
		return s.reach(d, ReasonChangedByAnotherHand, fmt.Sprintf("Revision %d was made by another hand.", revision))
	case StateUninstalling:
		if s.newest.isPointerUninstalledByHand() {
			return d.recoverFailed(ReasonChangedByAnotherHand, fmt.Sprintf("Revision %d was uninstalled with the helm command. Its record is a "+
				"pointer, which helm cannot uninstall: nothing was deleted, and the release is upgraded.", revision))
		}
		if wait := remainingUninstall(s.newest, s.desired, s.policy, s.now); wait > 0 {
			return d.waitFor(s.newest, s.desired, wait)
		}
		if wait := s.remainingBackoff(d.Failures); wait > 0 {
			return s.backOff(d, wait, fmt.Sprintf("An uninstall of revision %d did not end.", revision))
		}
		return d.finishUninstall()
	default:
		return s.decidePending(d)
	}
}

// Unreachable returns the decision about a release of a cluster that does not answer. It is no failure of the release.
func Unreachable() Decision {
	return Decision{
		Action: ActionWait, State: StateUnreachable, Reason: ReasonUnreachable, RequeueAfter: UnreachableRetry,
		Message: "The cluster does not answer.",
	}
}

// DecideUninstall says what a release needs to be gone. It is a pure function; of desired, only Owner and UID count.
// Decide's condition on running actions holds here too. A policy's TakeOwnership does not count: what belongs to
// somebody else is never uninstalled.
func DecideUninstall(obs Observation, desired Desired, policy Policy, now time.Time) Decision {
	state := obs.State(desired)
	newest, _ := obs.Newest()
	d := Decision{State: state, FromRevision: newest.Revision, FromID: newest.ID, ToRevision: newest.Revision}
	switch state {
	case StateAbsent, StateUninstalled:
		return d.stay(ActionNone, ReasonAlreadyUninstalled, "The release is not installed.")
	case StateForeign:
		return d.refuse(obs, desired)
	case StateUninstalling:
		if wait := remainingUninstall(newest, desired, policy, now); wait > 0 {
			return d.waitFor(newest, desired, wait)
		}
		return d.finishUninstall()
	case StatePending:
		if wait := remainingPending(newest, desired, policy, now); wait > 0 {
			return d.waitFor(newest, desired, wait)
		}
	}
	return d.stay(ActionUninstall, ReasonUninstall, fmt.Sprintf("Uninstalling revision %d.", newest.Revision))
}

func (s situation) decideOutOfSync(d Decision) Decision {
	newest := s.newest
	differ := newest.differences(s.desired)
	if len(differ) == 0 {
		return s.reach(d, ReasonNotDeployed,
			fmt.Sprintf("Revision %d is the newest but its status is %q.", newest.Revision, newest.Status))
	}
	reasons := map[Difference]string{
		DifferenceArtifact:   ReasonArtifactChanged,
		DifferenceValues:     ReasonValuesChanged,
		DifferenceOptions:    ReasonOptionsChanged,
		DifferencePostRender: ReasonPostRenderChanged,
	}
	reason, message := reasons[differ[0]], fmt.Sprintf("Revision %d was made from other %s.", newest.Revision, joinDifferences(differ))
	decided := s.reach(d, reason, message)
	if decided.Action == ActionUpgrade && d.Failures > 0 {
		// Tries without a record: rendering the chart was ended.
		return s.retry(d, s.policy.Upgrade, ActionUpgrade, reason, message)
	}
	if decided.Returns {
		decided.Reason = ReasonReturn
	}
	return decided
}

func joinDifferences(differ []Difference) string {
	words := make([]string, len(differ))
	for i, difference := range differ {
		words[i] = string(difference)
	}
	return strings.Join(words, ", ")
}

// MakesDesired reports whether the action of the decision, if it succeeds, makes the release what is desired.
func (d Decision) MakesDesired() bool { return d.Action.rendersChart() || d.Returns }

// act returns the decision to make a new revision.
func (d Decision) act(action Action, reason, message string) Decision {
	d.ToRevision = d.FromRevision + 1
	return d.stay(action, reason, message)
}

// stay returns a decision that makes no new revision.
func (d Decision) stay(action Action, reason, message string) Decision {
	d.Action, d.Reason, d.Message = action, reason, message
	return d
}

func (d Decision) finishUninstall() Decision {
	return d.stay(ActionUninstall, ReasonFinishUninstall,
		fmt.Sprintf("An uninstall of revision %d did not end.", d.FromRevision))
}

// refuseLost leaves a release alone that another HelmOp has taken over: if both took it back, they would upgrade it in turn for ever.
func (d Decision) refuseLost(obs Observation, desired Desired) Decision {
	if isSameOwner(obs, desired) {
		return d.refuse(obs, desired)
	}
	return d.stay(ActionRefuse, ReasonConflict, fmt.Sprintf("HelmOp %q has taken over the release, which is left to it: give one of the two"+
		" HelmOps another release name or other Clusters, or request a retry to take the release back.", obs.Owner()))
}

func (d Decision) refuse(obs Observation, desired Desired) Decision {
	switch owner := obs.Owner(); {
	case owner == "":
		return d.stay(ActionRefuse, ReasonConflict, "The release was made without HelmOp and is left alone: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.")
	case isSameOwner(obs, desired):
		return d.stay(ActionRefuse, ReasonConflict, d.otherManagementCluster(obs))
	default:
		return d.stay(ActionRefuse, ReasonConflict, fmt.Sprintf("The release belongs to HelmOp %q and is left alone: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.", owner))
	}
}
