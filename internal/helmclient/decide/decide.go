// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Recovery defines how a pending record is resolved.
type Recovery string

const (
	// RecoverNothing means that there is no pending record to resolve.
	RecoverNothing Recovery = ""
	// RecoverReplace repeats the action under the same revision. Until the new record replaces it, the pending record
	// is the proof that an action began.
	RecoverReplace Recovery = "Replace"
	// RecoverFail marks the pending record as failed; the next action creates another revision. Helm can then still
	// find the objects of the failed revision. RecoverFail also applies to a record whose uninstallation did not
	// complete.
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
	ReasonChangedOutsideHelmOp = "ChangedOutsideHelmOp"
	// ReasonInstalledOnce is the reason not to change a release that differs from the desired state: the policy is to
	// install it once, and a revision of it worked for a former object.
	ReasonInstalledOnce = "InstalledOnce"
	// ReasonObjectsMissing is the reason of an upgrade without changes, which re-creates objects that were deleted.
	ReasonObjectsMissing = "ObjectsMissing"
	ReasonAdopt          = "Adopt"
	// ReasonWouldChange is the reason not to adopt a release: the adoption would change it.
	ReasonWouldChange        = "WouldChange"
	ReasonInterrupted        = "Interrupted"
	ReasonPendingTimeout     = "PendingTimeout"
	ReasonPendingOtherOwner  = "PendingOtherOwner"
	ReasonFinishUninstall    = "FinishUninstall"
	ReasonConflict           = "Conflict"
	ReasonUninstall          = "Uninstall"
	ReasonAlreadyUninstalled = "AlreadyUninstalled"
	ReasonUnreachable        = "Unreachable"

	// ReasonBackoff is the reason to wait until the next attempt after a failure.
	ReasonBackoff = "Backoff"
	// ReasonRetriesExhausted is the reason of ActionStall after any failure except a failed rollback.
	ReasonRetriesExhausted = "RetriesExhausted"
	// ReasonRollbackFailed is the reason to repeat a failed rollback, and of ActionStall after the last attempt.
	ReasonRollbackFailed = "RollbackFailed"
	// ReasonRemediateUninstall is the reason to uninstall a failed installation before the next attempt.
	ReasonRemediateUninstall = "RemediateUninstall"
	// ReasonUpgradeFailed is the reason of a rollback after a failed upgrade.
	ReasonUpgradeFailed = "UpgradeFailed"
	// ReasonUnhealthy is the reason of a rollback of a revision that did not become healthy.
	ReasonUnhealthy = "Unhealthy"
	// ReasonTestsFailed is the reason of a rollback after failed tests, and to run failed tests again.
	ReasonTestsFailed = "TestsFailed"
	// ReasonNoRollbackTarget is the reason to repeat an upgrade without a rollback, because no revision is a suitable
	// target for a rollback.
	ReasonNoRollbackTarget = "NoRollbackTarget"
	// ReasonUntested is the reason to run tests that have not run yet.
	ReasonUntested = "Untested"
	// ReasonDrifted is the reason of all decisions about drift, whether the policy corrects drift or not.
	ReasonDrifted = "Drifted"
	// ReasonReturn is the reason of a return, see [model.Desired].Return.
	ReasonReturn = "Return"
)

// Decision is the next action on a release, and its reason.
type Decision struct {
	// Action is the next action.
	Action model.Action
	// State is the observed state.
	State model.State
	// Reason is one of the Reason constants, for programs.
	Reason string
	// Message explains the decision to people. It holds no values of the release.
	Message string
	// FromRevision is the newest observed revision; zero if there is none.
	FromRevision int
	// FromID is the [model.Record].ID of FromRevision.
	FromID types.UID
	// FromUID is the [model.Record].UID of FromRevision.
	FromUID string
	// ToRevision is the revision that the action will create; equal to FromRevision if the action creates none.
	ToRevision int
	// Assumed means that the decision is based on [model.Observation].Assumed. Callers must carry out only installations
	// on this basis. Before its first write, the action creates the namespace of the release, or lists the records. If
	// there are records, it changes nothing, and the error is of the kind [helmerr.ErrStale].
	Assumed bool
	// Recovery defines how the pending record FromRevision is resolved before the action.
	Recovery Recovery
	// RollbackTo is the target of ActionRollback; zero for other actions.
	RollbackTo int
	// Returns is set if the action is ActionRollback and the revision RollbackTo has the desired state. After a
	// successful rollback, the release is in sync.
	Returns bool
	// Failures is the number of failed attempts at the desired state. Act saves it in the new record.
	Failures int
	// RollbackFailures is the number of successive failed rollbacks so far.
	RollbackFailures int
	// Interruptions is the number of successive interrupted attempts at the desired state. Act saves it in the new
	// record.
	Interruptions int
	// Unproven is the newest revision that is known never to have been healthy; zero if there is none. Act saves it in
	// the new record.
	Unproven int
	// MayHaveWorked means that the release may have worked, but that its records do not show this. Act saves it in the new
	// record.
	MayHaveWorked bool
	// AttemptsSince is when the first attempt at the desired state began that failed since the last success; zero if there
	// is none. Act saves it in the new record.
	AttemptsSince time.Time
	// Keep is a revision that must stay in the history, even beyond the history limit, because a rollback may need it;
	// zero if there is none.
	Keep int
	// UnchangedOnly means, with ActionAdopt, that the action fails if the adoption would change the release. Otherwise,
	// such an adoption upgrades the release.
	UnchangedOnly bool
	// Request is the last retry request, as a label value. Act saves it in the new record.
	Request string
	// RequeueAfter is the time until the next decision, set with ActionWait, and with ActionRefuse while the other owner
	// may be working on the release.
	RequeueAfter time.Duration
	// NextTryAt is the time of the next attempt after a failure, set with ReasonBackoff, or the time when HelmOp takes
	// over a record of another process at the latest, set with ReasonPendingOtherOwner. It is zero for other reasons.
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
// The caller must not call it while an action of this process runs on the release. If a pending record has the desired
// UID and Shard, Next assumes that an earlier process of this manager left this record.
func Next(obs model.Observation, desired model.Desired, policy model.Policy, past model.Past, now time.Time) Decision {
	newest, _ := obs.Newest()
	s := situation{obs: obs, newest: newest, desired: desired, policy: policy, past: past.Since(newest, desired), now: now}
	d := Decision{
		State: obs.State(desired), FromRevision: newest.Revision, FromID: newest.ID, FromUID: newest.UID,
		ToRevision: newest.Revision, Assumed: obs.Assumed,
		Failures:      s.failures(),
		Interruptions: s.interruptions(), Unproven: s.unproven(), Request: model.DigestLabel(past.Request),
	}
	d.Keep, d.AttemptsSince = s.keeps(), s.attemptsSince()
	d.MayHaveWorked = past.Worked && !slices.ContainsFunc(obs.Records, model.Record.WasApplied)
	if desired.Return {
		s = s.withoutRemediation()
	}
	decided := s.decide(d)
	if past.Drifted {
		return s.decideDrift(decided)
	}
	return decided
}

// decide decides by the observed state. It ignores drift.
func (s situation) decide(d Decision) Decision {
	revision := s.newest.Revision
	if !s.past.RetryAnnotated && IsInstalledOnce(s.obs, s.desired, s.policy, d.State) {
		return d.stay(model.ActionNone, ReasonInstalledOnce, fmt.Sprintf(
			"The release was installed once, and stays at Helm revision %d.", revision))
	}
	switch d.State {
	case model.StateForeign:
		if isLost := s.past.WasOurs && s.obs.Owner() != ""; s.policy.TakeOwnership && !isLost {
			// The records of another owner do not count attempts at this desired state.
			d.Failures = s.unrecordedFailures()
			return s.afterUnrecorded(d, s.decideAdoption(d))
		}
		return s.refuseForeign(d)
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
			fmt.Sprintf("The upgrade failed, and Helm revision %d rolled it back.", revision))
	case model.StateUnmanaged:
		return s.afterUnrecorded(d, s.reach(d, ReasonChangedOutsideHelmOp,
			fmt.Sprintf("Helm revision %d was not made by HelmOp.", revision)))
	case model.StateUninstalling:
		return s.decideUninstalling(d)
	default:
		return s.decidePending(d)
	}
}

// IsInstalledOnce reports whether HelmOp must not change a release that differs from the desired state, because the
// release was installed for an object that was lost: the object of the release, or the object that represents the
// cluster. The records do not show whether a release was ever Ready. So they prove nothing about a release of the
// present objects: the owner itself decides when such a release is done. A failed or interrupted first installation is
// still continued. A release that is in sync is still tested, unless only the object that represents the cluster was
// lost: otherwise an unhealthy release would never be done again, and another name in the desired state would replace
// it. A retry that a user requested still upgrades the release.
func IsInstalledOnce(obs model.Observation, desired model.Desired, policy model.Policy, state model.State) bool {
	if !policy.InstallOnce {
		return false
	}
	if newest, _ := obs.Newest(); newest.Interrupted && newest.MayHaveWorked {
		// An uninstallation of the release did not complete, and may have deleted objects.
		return false
	}
	switch state {
	case model.StateInSync:
		if desired.ClusterRecreatedAt.IsZero() {
			return false
		}
		fallthrough
	case model.StateOutOfSync, model.StateUnmanaged, model.StateRolledBack:
		isOwn := func(r model.Record) bool {
			return r.IsFor(desired) && !r.ChangedAt.Before(desired.ClusterRecreatedAt)
		}
		return slices.ContainsFunc(obs.Records, model.Record.Worked) && !slices.ContainsFunc(obs.Records, isOwn)
	default:
		return false
	}
}

// Unreachable returns the decision about a release of an unreachable cluster. It does not count as a failure of the
// release.
func Unreachable() Decision {
	return Decision{
		Action: model.ActionWait, State: model.StateUnreachable, Reason: ReasonUnreachable,
		RequeueAfter: model.UnreachableRetry,
		Message:      "The cluster does not respond.",
	}
}

// Uninstall returns the next action that uninstalls a release. It is a pure function. It uses only the identity in
// desired: owner, UID, shard and management clusters. As with [Next], no action of this process may run on the release.
// Uninstall ignores TakeOwnership: HelmOp never uninstalls a release of another owner.
func Uninstall(obs model.Observation, desired model.Desired, policy model.Policy, now time.Time) Decision {
	state := obs.State(desired)
	newest, _ := obs.Newest()
	s := situation{obs: obs, newest: newest, desired: desired, policy: policy, now: now}
	d := Decision{State: state, FromRevision: newest.Revision, FromID: newest.ID, FromUID: newest.UID,
		ToRevision: newest.Revision}
	switch state {
	case model.StateAbsent, model.StateUninstalled:
		return d.stay(model.ActionNone, ReasonAlreadyUninstalled, "The release is not installed.")
	case model.StateForeign:
		return d.refuse(obs, desired)
	case model.StateUninstalling:
		if until := s.uninstallingUntil(); !until.IsZero() {
			return s.waitFor(d, until)
		}
		return d.finishUninstall()
	case model.StatePending:
		if until := s.pendingUntil(); !until.IsZero() {
			return s.waitFor(d, until)
		}
	}
	return d.stay(model.ActionUninstall, ReasonUninstall, fmt.Sprintf("Uninstalling Helm revision %d.", newest.Revision))
}

// decideOutOfSync decides if HelmOp created the newest revision from another state, or if the newest revision is no
// longer deployed.
func (s situation) decideOutOfSync(d Decision) Decision {
	reason, message := s.change()
	if reason == "" {
		return s.afterUnrecorded(d, s.reach(d, ReasonNotDeployed,
			fmt.Sprintf("Helm revision %d is the newest, but its status is %q.", s.newest.Revision, s.newest.Status)))
	}
	decided := s.reach(d, reason, message)
	if decided.Action == model.ActionUpgrade && d.Failures > 0 {
		// The failed attempts have no record, because rendering the chart exceeded a limit.
		return s.retry(d, s.policy.Upgrade, model.ActionUpgrade, reason, message)
	}
	if decided.Returns {
		decided.Reason = ReasonReturn
	}
	return decided
}

// change returns the reason and the message of a change from the newest revision to the desired state. Both are empty
// if the revision was made from the desired state.
func (s situation) change() (reason, message string) {
	differ := s.newest.Differences(s.desired)
	if len(differ) == 0 {
		return "", ""
	}
	reasons := map[model.Difference]string{
		model.DifferenceArtifact:   ReasonArtifactChanged,
		model.DifferenceValues:     ReasonValuesChanged,
		model.DifferenceOptions:    ReasonOptionsChanged,
		model.DifferencePostRender: ReasonPostRenderChanged,
	}
	return reasons[differ[0]],
		fmt.Sprintf("Helm revision %d was made with different %s.", s.newest.Revision, joinDifferences(differ))
}

func joinDifferences(differ []model.Difference) string {
	words := make([]string, len(differ))
	for i, difference := range differ {
		words[i] = string(difference)
	}
	return strings.Join(words, ", ")
}

// Performed returns the decision that the action really carried out. revision is the newest revision that the action
// saved: an adoption that created a revision was an upgrade.
func (d Decision) Performed(revision int) Decision {
	if d.Action == model.ActionAdopt && revision > d.FromRevision {
		d.Action, d.ToRevision = model.ActionUpgrade, revision
	}
	return d
}

// MakesDesired reports whether the release has its desired state after a success of the action.
func (d Decision) MakesDesired() bool { return d.Action.RendersChart() || d.Returns }

// act returns a decision to create a new revision.
func (d Decision) act(action model.Action, reason, message string) Decision {
	d.ToRevision = d.FromRevision + 1
	return d.stay(action, reason, message)
}

// stay returns a decision that does not create a new revision.
func (d Decision) stay(action model.Action, reason, message string) Decision {
	d.Action, d.Reason, d.Message = action, reason, message
	return d
}

// finishUninstall returns the decision to complete an uninstallation that has begun.
func (d Decision) finishUninstall() Decision {
	return d.stay(model.ActionUninstall, ReasonFinishUninstall,
		fmt.Sprintf("The uninstallation of Helm revision %d did not complete.", d.FromRevision))
}

// refuseForeign returns the decision not to change a release of another owner that may not be adopted.
func (s situation) refuseForeign(d Decision) Decision {
	status := release.Status(s.newest.Status)
	if (status == release.StatusUninstalling || status.IsPending()) && !s.abandonedAt().IsZero() {
		// There is no event when the other process ends.
		d.RequeueAfter = OtherProcessRetry
	}
	switch {
	case status == release.StatusUninstalling:
		return s.refuseUninstalling(d)
	case s.policy.TakeOwnership:
		return d.refuseLost(s.obs, s.desired)
	default:
		refused := d.refuse(s.obs, s.desired)
		if s.past.WasOurs && s.obs.Owner() != "" {
			refused.Message += " HelmOp takes the release back only if you request a retry after that."
		}
		return refused
	}
}

// refuseUninstalling returns the decision not to change a release of another owner that is being uninstalled. HelmOp
// installs the release when it is gone. Only a HelmOp that may take ownership takes over the release after an abandoned
// uninstallation.
func (s situation) refuseUninstalling(d Decision) Decision {
	process, ofOwner := s.otherProcess()
	advice := "set install.takeOwnership"
	if s.policy.TakeOwnership {
		advice = "request a retry"
	}
	return d.stay(model.ActionRefuse, ReasonConflict, fmt.Sprintf("The release%s is being uninstalled by %s: HelmOp"+
		" installs the release after the uninstallation. If the uninstallation does not end, %s to take over the release.",
		ofOwner, process, advice))
}

// refuseLost returns the decision not to change a release that another HelmOp has taken over. Otherwise, the two
// HelmOps would take over the release from each other forever.
func (d Decision) refuseLost(obs model.Observation, desired model.Desired) Decision {
	if model.IsSameOwner(obs, desired) {
		return d.stay(model.ActionRefuse, ReasonConflict,
			otherManagementCluster(obs, "request a retry to take the release back"))
	}
	return d.stay(model.ActionRefuse, ReasonConflict, fmt.Sprintf("HelmOp %q has taken over the release: change the"+
		" release name or the Clusters of one of the two HelmOps, or request a retry to take the release back.", obs.Owner()))
}

// refuse returns the decision not to change a release of another owner or management cluster.
func (d Decision) refuse(obs model.Observation, desired model.Desired) Decision {
	switch owner := obs.Owner(); {
	case owner == "":
		return d.stay(model.ActionRefuse, ReasonConflict, "The release exists and was not installed by HelmOp: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.")
	case model.IsSameOwner(obs, desired):
		return d.stay(model.ActionRefuse, ReasonConflict,
			otherManagementCluster(obs, "set install.takeOwnership to take ownership of the release"))
	default:
		return d.stay(model.ActionRefuse, ReasonConflict, fmt.Sprintf("The release belongs to HelmOp %q: set"+
			" install.takeOwnership to take ownership of it, or choose another release name or namespace.", owner))
	}
}
