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
	// ActionUninstall uninstalls the release. Where a release is desired, observe and decide again after it.
	ActionUninstall Action = "Uninstall"
	// ActionWait means that another holder may be at work: look again after RequeueAfter.
	ActionWait Action = "Wait"
	// ActionRefuse means that the release belongs to somebody else.
	ActionRefuse Action = "Refuse"
)

// Recovery is how a pending record is resolved.
type Recovery string

const (
	// RecoverNothing is for decisions which have no pending record to resolve.
	RecoverNothing Recovery = ""
	// RecoverDelete deletes the pending record, so that the same action done again gets the same revision.
	RecoverDelete Recovery = "Delete"
	// RecoverFail marks the pending record as failed. What it had created stays known to Helm, and a crash right
	// after it cannot make an older revision look current.
	RecoverFail Recovery = "Fail"
)

// Reasons of decisions.
const (
	ReasonInSync               = "InSync"
	ReasonNotInstalled         = "NotInstalled"
	ReasonArtifactChanged      = "ArtifactChanged"
	ReasonValuesChanged        = "ValuesChanged"
	ReasonOptionsChanged       = "OptionsChanged"
	ReasonNotDeployed          = "NotDeployed"
	ReasonRetryFailed          = "RetryFailed"
	ReasonChangedByAnotherHand = "ChangedByAnotherHand"
	ReasonAdopt                = "Adopt"
	ReasonInterrupted          = "Interrupted"
	ReasonPendingTimeout       = "PendingTimeout"
	ReasonPendingElsewhere     = "PendingElsewhere"
	ReasonFinishUninstall      = "FinishUninstall"
	ReasonConflict             = "Conflict"
	ReasonUninstall            = "Uninstall"
	ReasonAlreadyUninstalled   = "AlreadyUninstalled"
)

const (
	// DefaultPendingTimeout is the age from which on a pending record of another holder counts as abandoned. Helm's
	// own default for one hook is 5 minutes; a shorter time tramples on people's running upgrades, a longer one keeps
	// a release stuck after a crash elsewhere.
	DefaultPendingTimeout = 15 * time.Minute
	// minRequeue keeps a Wait whose end is due from becoming a busy loop.
	minRequeue = time.Second
)

// Policy is what the owner of a release allows.
type Policy struct {
	// TakeOwnership adopts a release that belongs to somebody else.
	TakeOwnership bool
	// PendingTimeout is the age from which on a pending record of another holder counts as abandoned. Zero means
	// [DefaultPendingTimeout].
	PendingTimeout time.Duration
}

func (p Policy) pendingTimeout() time.Duration {
	if p.PendingTimeout <= 0 {
		return DefaultPendingTimeout
	}
	return p.PendingTimeout
}

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
	// ToRevision is the revision that the action is expected to make; equal to FromRevision where it makes none.
	ToRevision int
	// Recovery says how the pending record FromRevision is resolved first.
	Recovery Recovery
	// RequeueAfter is when to look again, set with ActionWait only.
	RequeueAfter time.Duration
}

// Decide says what a release needs to become as desired. It is a pure function.
//
// The caller must not call it while an action of this process runs on the release: a pending record with the
// desired UID is taken for one that a predecessor left behind.
func Decide(obs Observation, desired Desired, policy Policy, now time.Time) Decision {
	state := obs.State(desired)
	newest, _ := obs.Newest()
	d := Decision{State: state, FromRevision: newest.Revision, ToRevision: newest.Revision}

	if state == StateForeign {
		if !policy.TakeOwnership {
			return d.refuse(obs)
		}
		return decideAdoption(d, newest, policy, now)
	}
	switch state {
	case StateAbsent:
		return d.act(ActionInstall, ReasonNotInstalled, "The release is not installed.")
	case StateUninstalled:
		return d.act(ActionInstall, ReasonNotInstalled, "The release is uninstalled; its history was kept.")
	case StateInSync:
		return d.stay(ActionNone, ReasonInSync, fmt.Sprintf("Revision %d is as desired.", newest.Revision))
	case StateOutOfSync:
		return decideOutOfSync(d, newest, desired)
	case StateFailed:
		return d.act(ActionUpgrade, ReasonRetryFailed, fmt.Sprintf("Revision %d failed.", newest.Revision))
	case StateUnmanaged:
		return d.act(ActionUpgrade, ReasonChangedByAnotherHand,
			fmt.Sprintf("Revision %d was made by another hand.", newest.Revision))
	case StateUninstalling:
		return d.finishUninstall()
	default:
		return decidePending(d, newest, desired, policy, now)
	}
}

// DecideUninstall says what a release needs to be gone. It is a pure function; of desired, only Owner and UID count.
// Decide's condition on running actions holds here too. A policy's TakeOwnership does not count: what belongs to
// somebody else is never uninstalled.
func DecideUninstall(obs Observation, desired Desired, policy Policy, now time.Time) Decision {
	state := obs.State(desired)
	newest, _ := obs.Newest()
	d := Decision{State: state, FromRevision: newest.Revision, ToRevision: newest.Revision}
	switch state {
	case StateAbsent, StateUninstalled:
		return d.stay(ActionNone, ReasonAlreadyUninstalled, "The release is not installed.")
	case StateForeign:
		return d.refuse(obs)
	case StateUninstalling:
		return d.finishUninstall()
	case StatePending:
		if wait := remainingPending(newest, desired, policy, now); wait > 0 {
			return d.wait(newest, wait)
		}
	}
	return d.stay(ActionUninstall, ReasonUninstall, fmt.Sprintf("Uninstalling revision %d.", newest.Revision))
}

func decideOutOfSync(d Decision, newest Record, desired Desired) Decision {
	differ := newest.differences(desired)
	if len(differ) == 0 {
		return d.act(ActionUpgrade, ReasonNotDeployed,
			fmt.Sprintf("Revision %d is the newest but its status is %q.", newest.Revision, newest.Status))
	}
	reasons := map[Difference]string{
		DifferenceArtifact: ReasonArtifactChanged,
		DifferenceValues:   ReasonValuesChanged,
		DifferenceOptions:  ReasonOptionsChanged,
	}
	return d.act(ActionUpgrade, reasons[differ[0]],
		fmt.Sprintf("Revision %d was made from other %s.", newest.Revision, joinDifferences(differ)))
}

// decideAdoption decides on a release that belongs to somebody else and is to be adopted.
func decideAdoption(d Decision, newest Record, policy Policy, now time.Time) Decision {
	status := release.Status(newest.Status)
	if !status.IsPending() && status != release.StatusUninstalling {
		return d.act(ActionUpgrade, ReasonAdopt, fmt.Sprintf("Adopting the release at revision %d.", newest.Revision))
	}
	// Nothing in the record can make it ours, so only its age counts.
	if wait := remainingPending(newest, Desired{}, policy, now); wait > 0 {
		return d.wait(newest, wait)
	}
	if status == release.StatusUninstalling {
		return d.finishUninstall()
	}
	return d.recoverFailed(ReasonPendingTimeout, abandonedMessage(newest, policy))
}

func decidePending(d Decision, newest Record, desired Desired, policy Policy, now time.Time) Decision {
	if wait := remainingPending(newest, desired, policy, now); wait > 0 {
		return d.wait(newest, wait)
	}
	reason, message := ReasonPendingTimeout, abandonedMessage(newest, policy)
	if isOwnPending(newest, desired) {
		reason = ReasonInterrupted
		message = fmt.Sprintf("Revision %d was interrupted and left as %s.", newest.Revision, newest.Status)
	}
	if !newest.authentic() || len(newest.differences(desired)) > 0 {
		return d.recoverFailed(reason, message)
	}
	switch release.Status(newest.Status) {
	case release.StatusPendingInstall:
		if newest.Revision > 1 {
			// An install over a kept history: without this record the newest would be superseded, and Helm installs
			// on top of an uninstalled or failed one only.
			return d.recoverFailed(reason, message)
		}
		return d.recoverDelete(ActionRecoverThenInstall, reason, message)
	case release.StatusPendingUpgrade:
		return d.recoverDelete(ActionRecoverThenUpgrade, reason, message)
	default:
		// This package makes no rollbacks.
		return d.recoverFailed(reason, message)
	}
}

// isOwnPending reports whether a predecessor of this process left the pending record behind.
func isOwnPending(newest Record, desired Desired) bool {
	return newest.authentic() && desired.UID != "" && newest.UID == desired.UID
}

// remainingPending returns how long the record must still be left to its holder.
func remainingPending(newest Record, desired Desired, policy Policy, now time.Time) time.Duration {
	if isOwnPending(newest, desired) {
		return 0
	}
	remaining := newest.ChangedAt.Add(policy.pendingTimeout()).Sub(now)
	if remaining <= 0 {
		return 0
	}
	// A clock that runs ahead in the other cluster must not make the wait endless.
	return min(max(remaining, minRequeue), policy.pendingTimeout())
}

func abandonedMessage(newest Record, policy Policy) string {
	return fmt.Sprintf("Revision %d has been %s for more than %s; its holder is taken for gone.",
		newest.Revision, newest.Status, policy.pendingTimeout())
}

func joinDifferences(differ []Difference) string {
	words := make([]string, len(differ))
	for i, difference := range differ {
		words[i] = string(difference)
	}
	return strings.Join(words, ", ")
}

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

func (d Decision) recoverDelete(action Action, reason, message string) Decision {
	d.Recovery = RecoverDelete
	return d.stay(action, reason, message)
}

func (d Decision) recoverFailed(reason, message string) Decision {
	d.Recovery = RecoverFail
	return d.act(ActionRecoverThenUpgrade, reason, message)
}

func (d Decision) wait(newest Record, after time.Duration) Decision {
	d.RequeueAfter = after
	return d.stay(ActionWait, ReasonPendingElsewhere,
		fmt.Sprintf("Revision %d is %s, and another holder may be at work on it.", newest.Revision, newest.Status))
}

func (d Decision) refuse(obs Observation) Decision {
	owner := obs.Owner()
	if owner == "" {
		return d.stay(ActionRefuse, ReasonConflict, "The release was made without HelmOp and is left alone;"+
			" take ownership of it, or choose another release name or namespace.")
	}
	return d.stay(ActionRefuse, ReasonConflict, fmt.Sprintf("The release belongs to HelmOp %q and is left alone;"+
		" take ownership of it, or choose another release name or namespace.", owner))
}
