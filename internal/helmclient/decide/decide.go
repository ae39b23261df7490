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
	// RecoverFail marks the pending record as failed; the next action makes another revision. Helm still knows what the
	// record's action created. It is also for a record that the helm command could not uninstall.
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
	// ReasonRemediateUninstall is the reason to uninstall a failed installation before the next attempt.
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

// Decision is the next action on a release, and its reason.
type Decision struct {
	// Action is what to do.
	Action model.Action
	// State is the state that was found.
	State model.State
	// Reason is one of the Reason constants: a word for programs.
	Reason string
	// Message explains the decision to people. It holds no values of the release.
	Message string
	// FromRevision is the newest revision found, zero if there is none.
	FromRevision int
	// FromID is the [model.Record].ID of FromRevision.
	FromID types.UID
	// ToRevision is the revision that the action is expected to make; equal to FromRevision where it makes none.
	ToRevision int
	// Recovery is how the pending record FromRevision is resolved before the action.
	Recovery Recovery
	// RollbackTo is the revision to return to, set with ActionRollback only.
	RollbackTo int
	// Returns means, with ActionRollback, that RollbackTo is the desired state: after a success the release is in sync.
	Returns bool
	// Failures is the number of failed attempts at the desired state. Act notes it on the record it makes.
	Failures int
	// RollbackFailures is how many rollbacks in a row failed so far.
	RollbackFailures int
	// Interruptions is the number of successive interrupted attempts at the desired state. Act notes it on the record it
	// makes.
	Interruptions int
	// Unproven is the newest revision that is known never to have been healthy, zero if there is none. Act notes it on the
	// record it makes.
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

// situation is the complete input of a decision.
type situation struct {
	obs     model.Observation
	newest  model.Record
	desired model.Desired
	policy  model.Policy
	past    model.Past
	now     time.Time
}

// Next returns the next action that brings a release to its desired state. It is a pure function.
//
// The caller must not call it while an action of this process runs on the release. Next takes a pending record with the
// desired UID for one that a predecessor of this process left behind.
func Next(obs model.Observation, desired model.Desired, policy model.Policy, past model.Past, now time.Time) Decision {
	newest, _ := obs.Newest()
	s := situation{obs: obs, newest: newest, desired: desired, policy: policy, past: past.Since(newest, desired), now: now}
	d := Decision{
		State: obs.State(desired), FromRevision: newest.Revision, FromID: newest.ID, ToRevision: newest.Revision,
		Failures:      s.failures(),
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
			fmt.Sprintf("The upgrade failed, and revision %d rolled it back.", revision))
	case model.StateUnmanaged:
		return s.reach(d, ReasonChangedByAnotherHand, fmt.Sprintf("Revision %d was not made by HelmOp.", revision))
	case model.StateUninstalling:
		if s.newest.IsPointerUninstalledByHand() {
			return d.recoverFailed(ReasonChangedByAnotherHand, fmt.Sprintf("Revision %d was uninstalled with the helm command, "+
				"which deleted nothing because it cannot read split records: HelmOp upgrades the release.", revision))
		}
		if wait := remainingUninstall(s.newest, s.desired, s.policy, s.now); wait > 0 {
			return d.waitFor(s.newest, s.desired, wait)
		}
		if wait := s.remainingBackoff(d.Failures); wait > 0 {
			return s.backOff(d, wait, fmt.Sprintf("The uninstallation of revision %d did not complete.", revision))
		}
		return d.finishUninstall()
	default:
		return s.decidePending(d)
	}
}

// Unreachable returns the decision about a release of a cluster that does not answer. It is no failure of the release.
func Unreachable() Decision {
	return Decision{
		Action: model.ActionWait, State: model.StateUnreachable, Reason: ReasonUnreachable,
		RequeueAfter: model.UnreachableRetry,
		Message:      "The cluster does not respond.",
	}
}

// Uninstall returns the next action that uninstalls a release. It is a pure function and uses only Owner and UID of
// desired. As with [Next], no action of this process may run on the release. It ignores TakeOwnership: a release of
// another owner is never uninstalled.
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
			fmt.Sprintf("Revision %d is the newest, but its status is %q.", newest.Revision, newest.Status))
	}
	reasons := map[model.Difference]string{
		model.DifferenceArtifact:   ReasonArtifactChanged,
		model.DifferenceValues:     ReasonValuesChanged,
		model.DifferenceOptions:    ReasonOptionsChanged,
		model.DifferencePostRender: ReasonPostRenderChanged,
	}
	reason, message := reasons[differ[0]],
		fmt.Sprintf("Revision %d was made with different %s.", newest.Revision, joinDifferences(differ))
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

// MakesDesired reports whether the release has its desired state after a success of the action.
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
		fmt.Sprintf("The uninstallation of revision %d did not complete.", d.FromRevision))
}

// refuseLost leaves a release to the HelmOp that has taken it over. If both took it back, they would upgrade it in turn
// for ever.
func (d Decision) refuseLost(obs model.Observation, desired model.Desired) Decision {
	if model.IsSameOwner(obs, desired) {
		return d.refuse(obs, desired)
	}
	return d.stay(model.ActionRefuse, ReasonConflict, fmt.Sprintf("HelmOp %q has taken over the release: change the"+
		" release name or the Clusters of one of the two HelmOps, or request a retry to take the release back.", obs.Owner()))
}

func (d Decision) refuse(obs model.Observation, desired model.Desired) Decision {
	switch owner := obs.Owner(); {
	case owner == "":
		return d.stay(model.ActionRefuse, ReasonConflict, "The release exists and was not installed by HelmOp: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.")
	case model.IsSameOwner(obs, desired):
		return d.stay(model.ActionRefuse, ReasonConflict, d.otherManagementCluster(obs))
	default:
		return d.stay(model.ActionRefuse, ReasonConflict, fmt.Sprintf("The release belongs to HelmOp %q: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.", owner))
	}
}
