// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
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
	// ReasonReturn is that of a return, see [model.Desired].Return.
	ReasonReturn = "Return"
)

// Decision is what a release needs next, and why.
type Decision struct {
	// Action is what to do.
	Action model.Action
	// State is the state that was found.
	State model.State
	// Reason is one of the Reason constants: a word for programs.
	Reason string
	// Message says the same to people. It holds no values.
	Message string
	// FromRevision is the newest revision found, zero where there is none.
	FromRevision int
	// FromID is the [model.Record].ID of FromRevision.
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
	obs     model.Observation
	newest  model.Record
	desired model.Desired
	policy  model.Policy
	past    model.Past
	now     time.Time
}

// Next says what a release needs to become as desired. It is a pure function.
//
// The caller must not call it while an action of this process runs on the release: a pending record with the
// desired UID is taken for one that a predecessor left behind.
func Next(obs model.Observation, desired model.Desired, policy model.Policy, past model.Past, now time.Time) Decision {
	newest, _ := obs.Newest()
	s := situation{obs: obs, newest: newest, desired: desired, policy: policy, past: past.Since(newest, desired), now: now}
	d := Decision{
		State: obs.State(desired), FromRevision: newest.Revision, FromID: newest.ID, ToRevision: newest.Revision, Failures: s.failures(),
		Interruptions: s.interruptions(), Unproven: s.unproven(), Request: model.DigestLabel(past.Request),
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

func (s situation) decide(d Decision) Decision {
	revision := s.newest.Revision
	switch d.State {
	case model.StateForeign:
		if !s.policy.TakeOwnership {
			return d.refuse(s.obs, s.desired)
		}
		if s.past.WasOurs && s.obs.Owner() != "" {
			return d.refuseLost(s.obs, s.desired)
		}
		return decideAdoption(d, s.newest, s.policy, s.now)
	case model.StateAbsent:
		return s.install(d, "The release is not installed.")
	case model.StateUninstalled:
		return s.install(d, "The release is uninstalled; its history was kept.")
	case model.StateInSync:
		return s.decideInSync(d)
	case model.StateOutOfSync:
		return s.decideOutOfSync(d)
	case model.StateFailed:
		return s.decideFailed(d)
	case model.StateRolledBack:
		return s.retry(d, s.policy.Upgrade, model.ActionUpgrade, ReasonRetryFailed,
			fmt.Sprintf("The upgrade failed, and revision %d is the return to what worked before.", revision))
	case model.StateUnmanaged:
		return s.reach(d, ReasonChangedByAnotherHand, fmt.Sprintf("Revision %d was made by another hand.", revision))
	case model.StateUninstalling:
		if s.newest.IsPointerUninstalledByHand() {
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
		Action: model.ActionWait, State: model.StateUnreachable, Reason: ReasonUnreachable, RequeueAfter: model.UnreachableRetry,
		Message: "The cluster does not answer.",
	}
}

// Uninstall says what a release needs to be gone. It is a pure function; of desired, only Owner and UID count.
// Decide's condition on running actions holds here too. A policy's TakeOwnership does not count: what belongs to
// somebody else is never uninstalled.
func Uninstall(obs model.Observation, desired model.Desired, policy model.Policy, now time.Time) Decision {
	state := obs.State(desired)
	newest, _ := obs.Newest()
	d := Decision{State: state, FromRevision: newest.Revision, FromID: newest.ID, ToRevision: newest.Revision}
	switch state {
	case model.StateAbsent, model.StateUninstalled:
		return d.stay(model.ActionNone, ReasonAlreadyUninstalled, "The release is not installed.")
	case model.StateForeign:
		return d.refuse(obs, desired)
	case model.StateUninstalling:
		if wait := remainingUninstall(newest, desired, policy, now); wait > 0 {
			return d.waitFor(newest, desired, wait)
		}
		return d.finishUninstall()
	case model.StatePending:
		if wait := remainingPending(newest, desired, policy, now); wait > 0 {
			return d.waitFor(newest, desired, wait)
		}
	}
	return d.stay(model.ActionUninstall, ReasonUninstall, fmt.Sprintf("Uninstalling revision %d.", newest.Revision))
}

func (s situation) decideOutOfSync(d Decision) Decision {
	newest := s.newest
	differ := newest.Differences(s.desired)
	if len(differ) == 0 {
		return s.reach(d, ReasonNotDeployed,
			fmt.Sprintf("Revision %d is the newest but its status is %q.", newest.Revision, newest.Status))
	}
	reasons := map[model.Difference]string{
		model.DifferenceArtifact:   ReasonArtifactChanged,
		model.DifferenceValues:     ReasonValuesChanged,
		model.DifferenceOptions:    ReasonOptionsChanged,
		model.DifferencePostRender: ReasonPostRenderChanged,
	}
	reason, message := reasons[differ[0]], fmt.Sprintf("Revision %d was made from other %s.", newest.Revision, joinDifferences(differ))
	decided := s.reach(d, reason, message)
	if decided.Action == model.ActionUpgrade && d.Failures > 0 {
		// Tries without a record: rendering the chart was ended.
		return s.retry(d, s.policy.Upgrade, model.ActionUpgrade, reason, message)
	}
	if decided.Returns {
		decided.Reason = ReasonReturn
	}
	return decided
}

func joinDifferences(differ []model.Difference) string {
	words := make([]string, len(differ))
	for i, difference := range differ {
		words[i] = string(difference)
	}
	return strings.Join(words, ", ")
}

// MakesDesired reports whether the action of the decision, if it succeeds, makes the release what is desired.
func (d Decision) MakesDesired() bool { return d.Action.RendersChart() || d.Returns }

// act returns the decision to make a new revision.
func (d Decision) act(action model.Action, reason, message string) Decision {
	d.ToRevision = d.FromRevision + 1
	return d.stay(action, reason, message)
}

// stay returns a decision that makes no new revision.
func (d Decision) stay(action model.Action, reason, message string) Decision {
	d.Action, d.Reason, d.Message = action, reason, message
	return d
}

func (d Decision) finishUninstall() Decision {
	return d.stay(model.ActionUninstall, ReasonFinishUninstall,
		fmt.Sprintf("An uninstall of revision %d did not end.", d.FromRevision))
}

// refuseLost leaves a release alone that another HelmOp has taken over: if both took it back, they would upgrade it in turn for ever.
func (d Decision) refuseLost(obs model.Observation, desired model.Desired) Decision {
	if model.IsSameOwner(obs, desired) {
		return d.refuse(obs, desired)
	}
	return d.stay(model.ActionRefuse, ReasonConflict, fmt.Sprintf("HelmOp %q has taken over the release, which is left to it: give one of the two"+
		" HelmOps another release name or other Clusters, or request a retry to take the release back.", obs.Owner()))
}

func (d Decision) refuse(obs model.Observation, desired model.Desired) Decision {
	switch owner := obs.Owner(); {
	case owner == "":
		return d.stay(model.ActionRefuse, ReasonConflict, "The release was made without HelmOp and is left alone: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.")
	case model.IsSameOwner(obs, desired):
		return d.stay(model.ActionRefuse, ReasonConflict, d.otherManagementCluster(obs))
	default:
		return d.stay(model.ActionRefuse, ReasonConflict, fmt.Sprintf("The release belongs to HelmOp %q and is left alone: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.", owner))
	}
}
