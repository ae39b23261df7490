// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func otherUID(r *model.Record)   { r.UID = "uid-2" }
func otherHand(r *model.Record)  { r.LabelledRevision = r.Revision - 1 }
func otherOwner(r *model.Record) { r.Owner = "default.other" }
func unlabelled(r *model.Record) {
	*r = model.Record{Revision: r.Revision, Status: r.Status, ChangedAt: r.ChangedAt}
}
func otherArtifact(r *model.Record) { r.ArtifactDigest = "1" }
func otherValues(r *model.Record)   { r.ValuesDigest = "1" }
func otherOptions(r *model.Record)  { r.OptionsDigest = "1" }
func old(r *model.Record)           { r.ChangedAt = helmtest.Now.Add(-16 * time.Minute) }
func isPointer(r *model.Record)     { r.IsPointer = true }
func uninstalling(r *model.Record)  { r.Uninstalling = true }
func neverWorked(r *model.Record)   { r.NeverWorked = true }
func until(after time.Duration) func(*model.Record) {
	return func(r *model.Record) { r.Deadline = helmtest.Now.Add(after) }
}

// aheadBy makes a record that a process with another clock wrote some minutes ago, for an action of 20 minutes. Its
// clock is ahead of the API server.
func aheadBy(ahead, ago time.Duration, hasDeadline bool) func(*model.Record) {
	return func(r *model.Record) {
		r.ServerTime = helmtest.Now.Add(-ago)
		r.ChangedAt = r.ServerTime.Add(ahead)
		if hasDeadline {
			r.Deadline = r.ChangedAt.Add(20 * time.Minute)
		}
	}
}
func fromFuture(r *model.Record) { r.ChangedAt = helmtest.Now.Add(time.Hour) }

func TestDecide(t *testing.T) {
	t.Parallel()
	adopt := model.Policy{TakeOwnership: true}
	once := model.Policy{InstallOnce: true}
	unchangedOnly := model.Policy{TakeOwnership: true, AdoptUnchangedOnly: true}
	one := func(r model.Record) []model.Record { return []model.Record{r} }
	before := helmtest.Record("deployed", 3, otherArtifact)
	tests := map[string]struct {
		records  []model.Record
		policy   model.Policy
		state    model.State
		action   model.Action
		reason   string
		from, to int
		recovery Recovery
		after    time.Duration
		failures int
		// cut is the number of interruptions.
		cut     int
		message string
	}{
		"absent": {state: model.StateAbsent, action: model.ActionInstall, reason: ReasonNotInstalled, to: 1},
		"in sync": {records: one(helmtest.Record("deployed", 3)), state: model.StateInSync,
			action: model.ActionNone, reason: ReasonInSync, from: 3, to: 3},
		"in sync after move": {records: one(helmtest.Record("deployed", 3, otherUID)), state: model.StateInSync,
			action: model.ActionNone, reason: ReasonInSync, from: 3, to: 3},
		"other artifact": {records: one(helmtest.Record("deployed", 3, otherArtifact)), state: model.StateOutOfSync,
			action: model.ActionUpgrade, reason: ReasonArtifactChanged, from: 3, to: 4},
		"other values": {records: one(helmtest.Record("deployed", 3, otherValues)), state: model.StateOutOfSync,
			action: model.ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4},
		"other options": {records: one(helmtest.Record("deployed", 3, otherOptions)), state: model.StateOutOfSync,
			action: model.ActionUpgrade, reason: ReasonOptionsChanged, from: 3, to: 4},
		"values and options": {records: one(helmtest.Record("deployed", 3, otherValues, otherOptions)),
			state: model.StateOutOfSync, action: model.ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4,
			message: "values, options"},
		"superseded": {records: one(helmtest.Record("superseded", 3)), state: model.StateOutOfSync,
			action: model.ActionUpgrade, reason: ReasonNotDeployed, from: 3, to: 4},
		"unknown status": {records: one(helmtest.Record("unknown", 3)), state: model.StateOutOfSync,
			action: model.ActionUpgrade, reason: ReasonNotDeployed, from: 3, to: 4},
		"failed": {records: one(helmtest.Record("failed", 3)), state: model.StateFailed,
			action: model.ActionUpgrade, reason: ReasonRetryFailed, from: 3, to: 4, failures: 1},
		"failed, other values are desired now": {records: one(helmtest.Record("failed", 3, otherValues)),
			state:  model.StateOutOfSync,
			action: model.ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4},
		"not made by HelmOp": {records: one(helmtest.Record("deployed", 3, otherHand)), state: model.StateUnmanaged,
			action: model.ActionUpgrade, reason: ReasonChangedOutsideHelmOp, from: 3, to: 4},
		"failed, made with the helm command": {records: one(helmtest.Record("failed", 3, otherHand)),
			state:  model.StateUnmanaged,
			action: model.ActionUpgrade, reason: ReasonChangedOutsideHelmOp, from: 3, to: 4},
		"upgraded by an old Helm without labels": {records: []model.Record{helmtest.Record("deployed", 3, unlabelled),
			helmtest.Record("superseded", 2)}, state: model.StateUnmanaged, action: model.ActionUpgrade,
			reason: ReasonChangedOutsideHelmOp, from: 3, to: 4},
		"uninstalled": {records: one(helmtest.Record("uninstalled", 3)), state: model.StateUninstalled,
			action: model.ActionInstall, reason: ReasonNotInstalled, from: 3, to: 4},
		"uninstalled, of another owner": {records: one(helmtest.Record("uninstalled", 3, otherOwner)),
			state:  model.StateUninstalled,
			action: model.ActionInstall, reason: ReasonNotInstalled, from: 3, to: 4},
		"uninstalling": {records: one(helmtest.Record("uninstalling", 3, uninstalling)), state: model.StateUninstalling,
			action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 3, to: 4, recovery: RecoverFail,
			message: "did not complete"},
		"uninstalling, made by another hand": {records: one(helmtest.Record("uninstalling", 3, uninstalling, otherHand)),
			state: model.StateUninstalling, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 3, to: 4,
			recovery: RecoverFail},
		"uninstalling as remediation": {records: one(helmtest.Record("uninstalling", 3, uninstalling, neverWorked)),
			state: model.StateUninstalling, action: model.ActionUninstall, reason: ReasonFinishUninstall, from: 3, to: 3},
		"uninstalling as remediation for another UID, old": {
			records: one(helmtest.Record("uninstalling", 3, uninstalling, neverWorked, otherUID, old)),
			state:   model.StateUninstalling, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 3, to: 4,
			recovery: RecoverFail},
		"uninstalling for another UID, young": {records: one(helmtest.Record("uninstalling", 3, uninstalling, otherUID)),
			state: model.StateUninstalling, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 3, to: 3,
			after: OtherProcessRetry},
		"uninstalling for another UID, old": {records: one(helmtest.Record("uninstalling", 3, uninstalling, otherUID, old)),
			state: model.StateUninstalling, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 3, to: 4,
			recovery: RecoverFail},
		"uninstalled with helm, young": {records: one(helmtest.Record("uninstalling", 3)), state: model.StateUninstalling,
			action: model.ActionWait,
			reason: ReasonPendingOtherOwner, from: 3, to: 3, after: OtherProcessRetry},
		"uninstalled with helm, old": {records: one(helmtest.Record("uninstalling", 3, old)), state: model.StateUninstalling,
			action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 3, to: 4, recovery: RecoverFail},
		"uninstalling, split record": {records: one(helmtest.Record("uninstalling", 3, isPointer, uninstalling)),
			state: model.StateUninstalling, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 3, to: 4,
			recovery: RecoverFail},
		"uninstalled with helm, split record": {records: one(helmtest.Record("uninstalling", 3, isPointer)),
			state: model.StateUninstalling, action: model.ActionRecoverThenUpgrade,
			reason: ReasonChangedOutsideHelmOp, from: 3, to: 4, recovery: RecoverFail, message: "deleted nothing"},

		"foreign": {records: one(helmtest.Record("deployed", 3, otherOwner)), state: model.StateForeign,
			action: model.ActionRefuse, reason: ReasonConflict, from: 3, to: 3,
			message: `"default.other": set install.takeOwnership to`},
		"foreign, installed with helm": {records: one(helmtest.Record("deployed", 3, unlabelled)), state: model.StateForeign,
			action: model.ActionRefuse, reason: ReasonConflict, from: 3, to: 3,
			message: "not installed by HelmOp: set install.takeOwnership to"},
		"foreign uninstalling": {records: one(helmtest.Record("uninstalling", 3, otherOwner, old)),
			state: model.StateForeign, action: model.ActionRefuse, reason: ReasonConflict, from: 3, to: 3},
		"foreign uninstalling, young": {records: one(helmtest.Record("uninstalling", 3, otherOwner, uninstalling)),
			state: model.StateForeign, action: model.ActionRefuse, reason: ReasonConflict, from: 3, to: 3,
			after: OtherProcessRetry},
		"foreign pending, young": {records: one(helmtest.Record("pending-upgrade", 3, otherOwner)),
			state: model.StateForeign, action: model.ActionRefuse, reason: ReasonConflict, from: 3, to: 3,
			after: OtherProcessRetry},
		"foreign pending": {records: one(helmtest.Record("pending-upgrade", 3, unlabelled, old)),
			state: model.StateForeign, action: model.ActionRefuse, reason: ReasonConflict, from: 3, to: 3},
		"install once, other values, object lost": {records: one(helmtest.Record("deployed", 3, otherUID, otherValues)),
			policy: once,
			state:  model.StateOutOfSync, action: model.ActionNone, reason: ReasonInstalledOnce, from: 3, to: 3},
		"install once, other values, not Ready": {records: one(helmtest.Record("deployed", 3, otherValues)), policy: once,
			state: model.StateOutOfSync, action: model.ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4},
		"install once, other values, failed upgrade": {records: []model.Record{
			helmtest.Record("failed", 3, otherValues), helmtest.Record("deployed", 2, otherArtifact)}, policy: once,
			state: model.StateOutOfSync, action: model.ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4},
		"install once, not Ready, upgraded with the helm command": {records: []model.Record{
			helmtest.Record("deployed", 3, otherHand), helmtest.Record("superseded", 2)}, policy: once,
			state: model.StateUnmanaged, action: model.ActionUpgrade, reason: ReasonChangedOutsideHelmOp, from: 3, to: 4},
		"install once, upgraded with the helm command": {records: one(helmtest.Record("deployed", 3, otherHand)),
			policy: once, state: model.StateUnmanaged, action: model.ActionNone, reason: ReasonInstalledOnce, from: 3, to: 3},
		"install once, in sync": {records: one(helmtest.Record("deployed", 3)), policy: once,
			state: model.StateInSync, action: model.ActionNone, reason: ReasonInSync, from: 3, to: 3},
		"install once, never worked": {records: one(helmtest.Record("failed", 1, otherValues)), policy: once,
			state: model.StateOutOfSync, action: model.ActionUpgrade, reason: ReasonValuesChanged, from: 1, to: 2},
		"install once, uninstalled": {records: one(helmtest.Record("uninstalled", 3)), policy: once,
			state: model.StateUninstalled, action: model.ActionInstall, reason: ReasonNotInstalled, from: 3, to: 4},
		"install once, absent": {policy: once, state: model.StateAbsent, action: model.ActionInstall,
			reason: ReasonNotInstalled, to: 1},
		"adopt": {records: one(helmtest.Record("deployed", 3, otherOwner)), policy: adopt,
			state: model.StateForeign, action: model.ActionAdopt, reason: ReasonAdopt, from: 3, to: 3},
		"adopt failed": {records: one(helmtest.Record("failed", 3, otherOwner)), policy: adopt,
			state: model.StateForeign, action: model.ActionUpgrade, reason: ReasonAdopt, from: 3, to: 4},
		"adopt unchanged only": {records: one(helmtest.Record("deployed", 3, otherOwner)), policy: unchangedOnly,
			state: model.StateForeign, action: model.ActionAdopt, reason: ReasonAdopt, from: 3, to: 3},
		"adopt unchanged only, failed": {records: one(helmtest.Record("failed", 3, unlabelled)), policy: unchangedOnly,
			state: model.StateForeign, action: model.ActionRefuse, reason: ReasonWouldChange, from: 3, to: 3},
		"adopt unchanged only, pending for long": {records: one(helmtest.Record("pending-upgrade", 3, unlabelled, old)),
			policy: unchangedOnly,
			state:  model.StateForeign, action: model.ActionRefuse, reason: ReasonWouldChange, from: 3, to: 3},
		"adopt unchanged only, pending": {records: one(helmtest.Record("pending-upgrade", 3, unlabelled)),
			policy: unchangedOnly,
			state:  model.StateForeign, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 3, to: 3,
			after: OtherProcessRetry},
		"adopt unchanged only, uninstalling": {records: one(helmtest.Record("uninstalling", 3, unlabelled)),
			policy: unchangedOnly,
			state:  model.StateForeign, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 3, to: 3,
			after: OtherProcessRetry},
		"adopt unchanged only, uninstalling for long": {records: one(helmtest.Record("uninstalling", 3, unlabelled, old)),
			policy: unchangedOnly,
			state:  model.StateForeign, action: model.ActionRefuse, reason: ReasonWouldChange, from: 3, to: 3},
		"unchanged only, without ownership": {records: one(helmtest.Record("deployed", 3, unlabelled)),
			policy: model.Policy{AdoptUnchangedOnly: true},
			state:  model.StateForeign, action: model.ActionRefuse, reason: ReasonConflict, from: 3, to: 3},
		"adopt pending, young": {records: one(helmtest.Record("pending-upgrade", 3, otherOwner)), policy: adopt,
			state: model.StateForeign, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 3, to: 3,
			after: OtherProcessRetry},
		"adopt pending, old": {records: one(helmtest.Record("pending-install", 1, otherOwner, old)), policy: adopt,
			state: model.StateForeign, action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 1, to: 2,
			recovery: RecoverFail},
		"adopt uninstalling, young": {records: one(helmtest.Record("uninstalling", 3, unlabelled)), policy: adopt,
			state: model.StateForeign, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 3, to: 3,
			after: OtherProcessRetry},
		"adopt uninstalling, old": {records: one(helmtest.Record("uninstalling", 3, unlabelled, old)), policy: adopt,
			state: model.StateForeign, action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 3, to: 4,
			recovery: RecoverFail},
		"in sync, with ownership": {records: one(helmtest.Record("deployed", 3)), policy: adopt, state: model.StateInSync,
			action: model.ActionNone, reason: ReasonInSync, from: 3, to: 3},

		"own pending install": {records: one(helmtest.Record("pending-install", 1)),
			state: model.StatePending, action: model.ActionRecoverThenInstall, reason: ReasonInterrupted, from: 1, to: 1,
			recovery: RecoverReplace, cut: 1},
		"own pending install, other values": {records: one(helmtest.Record("pending-install", 1, otherValues)),
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonValuesChanged, from: 1, to: 2,
			recovery: RecoverFail, message: "was interrupted while it was pending-install. Helm revision 1 was made with"},
		"own pending install on a kept history": {records: []model.Record{helmtest.Record("pending-install", 4),
			helmtest.Record("uninstalled", 3)}, state: model.StatePending, action: model.ActionRecoverThenInstall,
			reason: ReasonInterrupted, from: 4, to: 4, recovery: RecoverReplace, cut: 1},
		"own pending install, revision below exists": {records: []model.Record{helmtest.Record("pending-install", 4),
			helmtest.Record("uninstalled", 2)}, state: model.StatePending, action: model.ActionRecoverThenUpgrade,
			reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"own pending upgrade, after a gap": {records: []model.Record{helmtest.Record("pending-upgrade", 5), before},
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 5, to: 6,
			recovery: RecoverFail, cut: 1},
		"own pending upgrade, no other record": {records: one(helmtest.Record("pending-upgrade", 4)),
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5,
			recovery: RecoverFail, cut: 1},
		"own pending upgrade, over a pending record": {records: []model.Record{helmtest.Record("pending-upgrade", 4),
			helmtest.Record("pending-upgrade", 3)}, state: model.StatePending, action: model.ActionRecoverThenUpgrade,
			reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"own pending install, history is missing": {records: one(helmtest.Record("pending-install", 4)),
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5,
			recovery: RecoverFail, cut: 1},
		"own pending upgrade": {records: []model.Record{helmtest.Record("pending-upgrade", 4), before},
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 4,
			recovery: RecoverReplace, cut: 1},
		"own pending upgrade, other artifact": {records: one(helmtest.Record("pending-upgrade", 4, otherArtifact)),
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonArtifactChanged, from: 4, to: 5,
			recovery: RecoverFail},
		"own pending rollback": {records: one(helmtest.Record("pending-rollback", 4)),
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5,
			recovery: RecoverFail, cut: 1},
		"pending of another UID, young": {records: one(helmtest.Record("pending-upgrade", 4, otherUID)),
			state: model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry, cut: 1},
		"pending of another UID, old": {records: []model.Record{helmtest.Record("pending-upgrade", 4, otherUID,
			old), before}, state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout,
			from: 4, to: 4, recovery: RecoverReplace, cut: 1},
		"pending install of another UID, old": {records: one(helmtest.Record("pending-install", 1, otherUID, old)),
			state: model.StatePending, action: model.ActionRecoverThenInstall, reason: ReasonPendingTimeout, from: 1, to: 1,
			recovery: RecoverReplace, cut: 1},
		"pending with helm, young": {records: one(helmtest.Record("pending-upgrade", 4, otherHand)),
			state: model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry},
		"pending with helm, old": {records: one(helmtest.Record("pending-upgrade", 4, otherHand, old)),
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5,
			recovery: RecoverFail},
		"pending rollback with helm, old": {records: one(helmtest.Record("pending-rollback", 4, otherHand, old)),
			state: model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5,
			recovery: RecoverFail},
		"pending of another UID, before its deadline": {records: one(helmtest.Record("pending-upgrade", 4, otherUID, old,
			until(time.Hour))), state: model.StatePending,
			action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4, after: OtherProcessRetry, cut: 1},
		"pending of another UID, after its deadline": {records: one(helmtest.Record("pending-upgrade", 4, otherUID,
			until(-time.Second))), state: model.StatePending,
			action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"pending of another UID, its clock is days ahead": {
			records: one(helmtest.Record("pending-upgrade", 4, otherUID, aheadBy(72*time.Hour, 31*time.Minute, true))),
			state:   model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5,
			recovery: RecoverFail, cut: 1, message: helmtest.Now.Add(-time.Minute).UTC().Format(time.RFC3339)},
		"pending of another UID, its clock is days ahead, young": {
			records: one(helmtest.Record("pending-upgrade", 4, otherUID, aheadBy(72*time.Hour, 29*time.Minute, true))),
			state:   model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry, cut: 1, message: helmtest.Now.Add(time.Minute).UTC().Format(time.RFC3339)},
		"pending of another UID, its clock is minutes ahead": {
			records: one(helmtest.Record("pending-upgrade", 4, otherUID, aheadBy(9*time.Minute, 8*time.Minute, true))),
			state:   model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry, cut: 1, message: helmtest.Now.Add(21 * time.Minute).UTC().Format(time.RFC3339)},
		"pending of another UID, only the API server has another clock": {
			records: one(helmtest.Record("pending-upgrade", 4, otherUID, aheadBy(time.Hour, 61*time.Minute, true))),
			state:   model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry, cut: 1, message: helmtest.Now.Add(19 * time.Minute).UTC().Format(time.RFC3339)},
		"pending of another UID, the API server is an hour behind": {
			records: one(helmtest.Record("pending-upgrade", 4, otherUID, aheadBy(time.Hour, time.Hour-2*time.Second, true))),
			state:   model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry, cut: 1,
			message: helmtest.Now.Add(20*time.Minute + 2*time.Second).UTC().Format(time.RFC3339)},
		"pending with helm, its clock is days ahead": {
			records: one(helmtest.Record("pending-upgrade", 4, otherHand, aheadBy(72*time.Hour, 26*time.Minute, false))),
			state:   model.StatePending, action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5,
			recovery: RecoverFail},
		"pending with helm, its clock is days ahead, young": {
			records: one(helmtest.Record("pending-upgrade", 4, otherHand, aheadBy(72*time.Hour, 24*time.Minute, false))),
			state:   model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry},
		"pending with helm, copied deadline": {records: one(helmtest.Record("pending-upgrade", 4, otherHand,
			until(-time.Second))),
			state: model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry},
		"pending, clock of the cluster is ahead": {records: one(helmtest.Record("pending-upgrade", 4, otherUID, fromFuture)),
			state: model.StatePending, action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4,
			after: OtherProcessRetry, cut: 1},
		"pending of another UID, shorter timeout": {records: []model.Record{helmtest.Record("pending-upgrade", 4, otherUID),
			before}, policy: model.Policy{PendingTimeout: 30 * time.Second}, state: model.StatePending,
			action: model.ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 4, recovery: RecoverReplace,
			cut: 1},
		"pending of another UID, timeout almost over": {records: one(helmtest.Record("pending-upgrade", 4, otherUID)),
			policy: model.Policy{PendingTimeout: time.Minute + time.Millisecond}, state: model.StatePending,
			action: model.ActionWait, reason: ReasonPendingOtherOwner, from: 4, to: 4, after: time.Second, cut: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Next(model.Observation{Records: test.records}, helmtest.Desired(), test.policy, model.Past{}, helmtest.Now)
			if !strings.Contains(got.Message, test.message) || got.Message == "" {
				t.Errorf("message %q does not contain %q", got.Message, test.message)
			}
			checkNextTry(t, &got)
			got.Message = ""
			want := Decision{Action: test.action, State: test.state, Reason: test.reason, FromRevision: test.from,
				ToRevision: test.to, Recovery: test.recovery, RequeueAfter: test.after, Failures: test.failures,
				Interruptions: test.cut,
				UnchangedOnly: test.action == model.ActionAdopt && test.policy.AdoptUnchangedOnly}
			if len(test.records) > 0 {
				want.FromUID = test.records[0].UID
			}
			if got != want {
				t.Errorf("Decide:\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

// checkNextTry checks that a decision has the time of the next attempt exactly if its reason is the backoff or a wait
// for another process, and that the message has the time, too. It removes the time.
func checkNextTry(t *testing.T, got *Decision) {
	t.Helper()
	wait := got.NextTryAt.Sub(helmtest.Now)
	hasTime := got.Reason == ReasonBackoff || got.Reason == ReasonPendingOtherOwner
	switch {
	case hasTime == got.NextTryAt.IsZero():
		t.Errorf("the decision %+v has the next attempt at %s", *got, got.NextTryAt)
	case got.Reason == ReasonBackoff && (wait-got.RequeueAfter).Abs() > time.Second,
		got.Reason == ReasonPendingOtherOwner && wait <= 0 && got.RequeueAfter > model.MinRequeue:
		t.Errorf("the next attempt is in %s, and the next decision in %s", wait, got.RequeueAfter)
	case hasTime && !strings.Contains(got.Message, got.NextTryAt.UTC().Format(time.RFC3339)):
		t.Errorf("the message %q does not have the time of the next attempt", got.Message)
	}
	got.NextTryAt = time.Time{}
}

// TestNextTryTimeIsStable checks that the time of the next attempt does not change between decisions, because each
// change would be a write.
func TestNextTryTimeIsStable(t *testing.T) {
	t.Parallel()
	failed := helmtest.Record("failed", 2, failures(2))
	var first Decision
	for after := time.Duration(0); after < 30*time.Second; after += 700 * time.Millisecond {
		decided := Next(model.Observation{Records: []model.Record{failed, helmtest.Record("deployed", 1)}},
			helmtest.Desired(), model.Policy{}, model.Past{}, failed.ChangedAt.Add(after))
		if first.Action == "" {
			first = decided
		}
		if decided.Reason == ReasonBackoff &&
			(decided.Message != first.Message || !decided.NextTryAt.Equal(first.NextTryAt)) {
			t.Fatalf("%s later, %q became %q", after, first.Message, decided.Message)
		}
	}
	if first.Reason != ReasonBackoff {
		t.Errorf("%s: %s", first.Reason, first.Message)
	}
}

// TestWaitNamesTheOtherProcess checks the complete messages of releases on which another process works, and the time
// when HelmOp takes over.
func TestWaitNamesTheOtherProcess(t *testing.T) {
	t.Parallel()
	elsewhere := func(r *model.Record) { r.ManagementCluster = "uid-9" }
	inShard := func(r *model.Record) { r.Shard = "a" }
	waits := func(subject string, limit time.Duration) string {
		return subject + ": HelmOp waits until the action has ended, at the latest until " +
			helmtest.Now.Add(limit).UTC().Format(time.RFC3339) + "."
	}
	// The records are one minute old, and the limit without a deadline is 15 minutes.
	const byAge = 14 * time.Minute
	takes, lost := model.Policy{TakeOwnership: true}, model.Past{WasOurs: true}
	const after = ": HelmOp installs the release after the uninstallation. If the uninstallation does not end, "
	for name, test := range map[string]struct {
		record model.Record
		policy model.Policy
		past   model.Past
		want   string
	}{
		"upgrade with helm": {record: helmtest.Record("pending-upgrade", 3, otherHand), want: waits(
			"Helm revision 3 is pending-upgrade, and the helm command or a similar program may be working on it", byAge)},
		"another object": {record: helmtest.Record("pending-upgrade", 3, otherUID, until(time.Hour)), want: waits(
			`Helm revision 3 is pending-upgrade, and another HelmOpRelease of HelmOp "default.calico" may be working on it`,
			time.Hour)},
		"another shard": {record: helmtest.Record("pending-upgrade", 3, inShard), want: waits(
			`Helm revision 3 is pending-upgrade, and the former manager (shard "a") of the release may be working on it`,
			byAge)},
		"uninstalled by another shard": {record: helmtest.Record("uninstalling", 3, inShard, uninstalling,
			until(time.Minute)), want: waits(
			`Helm revision 3 is being uninstalled by the former manager (shard "a") of the release`, time.Minute)},
		"helm uninstall": {record: helmtest.Record("uninstalling", 3), want: waits(
			"Helm revision 3 is being uninstalled by the helm command or a similar program", byAge)},
		"foreign": {policy: takes, record: helmtest.Record("pending-install", 3, otherOwner, until(time.Minute)),
			want: waits(`Helm revision 3 is pending-install, and HelmOp "default.other" may be working on it`, time.Minute)},
		"foreign, with helm": {policy: takes, record: helmtest.Record("pending-upgrade", 3, otherOwner, otherHand),
			want: waits(`Helm revision 3 of HelmOp "default.other" is pending-upgrade, and the helm command or a similar `+
				`program may be working on it`, byAge)},
		"without an owner": {policy: takes, record: helmtest.Record("pending-upgrade", 3, unlabelled), want: waits(
			"Helm revision 3 is pending-upgrade, and the helm command or a similar program may be working on it", byAge)},
		"another management cluster": {policy: takes, record: helmtest.Record("pending-upgrade", 3, elsewhere), want: waits(
			`Helm revision 3 is pending-upgrade, and HelmOp "default.calico" of another management cluster (UID "uid-9" of `+
				`its namespace kube-system) may be working on it`, byAge)},
		"foreign, uninstalling": {policy: takes, record: helmtest.Record("uninstalling", 3, otherOwner, uninstalling),
			want: waits(`Helm revision 3 is being uninstalled by HelmOp "default.other"`, byAge)},
		"foreign, helm uninstall": {policy: takes, record: helmtest.Record("uninstalling", 3, otherOwner), want: waits(
			`Helm revision 3 of HelmOp "default.other" is being uninstalled by the helm command or a similar program`,
			byAge)},
		"refused, uninstalling": {record: helmtest.Record("uninstalling", 3, otherOwner, uninstalling),
			want: `The release is being uninstalled by HelmOp "default.other"` + after +
				"set install.takeOwnership to take over the release."},
		"refused, helm uninstall": {record: helmtest.Record("uninstalling", 3, otherOwner),
			want: `The release of HelmOp "default.other" is being uninstalled by the helm command or a similar program` +
				after + "set install.takeOwnership to take over the release."},
		"lost, uninstalling": {record: helmtest.Record("uninstalling", 3, otherOwner, uninstalling), policy: takes,
			past: lost, want: `The release is being uninstalled by HelmOp "default.other"` + after +
				"request a retry to take over the release."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desired := helmtest.Desired()
			desired.ManagementCluster = "uid-8"
			got := Next(model.Observation{Records: []model.Record{test.record}}, desired, test.policy, test.past,
				helmtest.Now)
			if got.Message != test.want {
				t.Errorf("\n got %q\nwant %q", got.Message, test.want)
			}
			later := Next(model.Observation{Records: []model.Record{test.record}}, desired, test.policy, test.past,
				helmtest.Now.Add(2*time.Second))
			if later.Message != got.Message || !later.NextTryAt.Equal(got.NextTryAt) {
				t.Errorf("2 seconds later: %q", later.Message)
			}
			checkNextTry(t, &got)
		})
	}
}

func TestDecideUninstall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		records []model.Record
		policy  model.Policy
		action  model.Action
		reason  string
	}{
		"absent": {action: model.ActionNone, reason: ReasonAlreadyUninstalled},
		"uninstalled": {records: []model.Record{helmtest.Record("uninstalled", 2)},
			action: model.ActionNone, reason: ReasonAlreadyUninstalled},
		"deployed": {records: []model.Record{helmtest.Record("deployed", 2, otherValues)},
			action: model.ActionUninstall, reason: ReasonUninstall},
		"failed": {records: []model.Record{helmtest.Record("failed", 2)},
			action: model.ActionUninstall, reason: ReasonUninstall},
		"not made by HelmOp": {records: []model.Record{helmtest.Record("deployed", 2, otherHand)},
			action: model.ActionUninstall, reason: ReasonUninstall},
		"uninstalling": {records: []model.Record{helmtest.Record("uninstalling", 2, uninstalling)},
			action: model.ActionUninstall, reason: ReasonFinishUninstall},
		"uninstalled with helm, split record": {records: []model.Record{helmtest.Record("uninstalling", 2, isPointer)},
			action: model.ActionUninstall, reason: ReasonFinishUninstall},
		"uninstalling, made by another hand": {
			records: []model.Record{helmtest.Record("uninstalling", 2, uninstalling, otherHand)},
			action:  model.ActionUninstall, reason: ReasonFinishUninstall},
		"uninstalling for another UID, young": {
			records: []model.Record{helmtest.Record("uninstalling", 2, uninstalling, otherUID)},
			action:  model.ActionWait, reason: ReasonPendingOtherOwner},
		"own pending": {records: []model.Record{helmtest.Record("pending-upgrade", 2)},
			action: model.ActionUninstall, reason: ReasonUninstall},
		"pending of another UID, young": {records: []model.Record{helmtest.Record("pending-upgrade", 2, otherUID)},
			action: model.ActionWait, reason: ReasonPendingOtherOwner},
		"pending of another UID, old": {records: []model.Record{helmtest.Record("pending-upgrade", 2, otherUID, old)},
			action: model.ActionUninstall, reason: ReasonUninstall},
		"foreign": {records: []model.Record{helmtest.Record("deployed", 2, otherOwner)},
			action: model.ActionRefuse, reason: ReasonConflict},
		"foreign, with ownership": {records: []model.Record{helmtest.Record("deployed", 2, unlabelled)},
			policy: model.Policy{TakeOwnership: true}, action: model.ActionRefuse, reason: ReasonConflict},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Uninstall(model.Observation{Records: test.records}, helmtest.Desired(), test.policy, helmtest.Now)
			if got.Action != test.action || got.Reason != test.reason || got.Message == "" {
				t.Errorf("got %+v, want action %s, reason %s", got, test.action, test.reason)
			}
			if (got.RequeueAfter > 0) != (got.Action == model.ActionWait) {
				t.Errorf("RequeueAfter %s with action %s", got.RequeueAfter, got.Action)
			}
		})
	}
}

// TestInstalledOnceForFormerClusterObject has a release of the present object in a cluster whose own object was
// re-created. If the release is older than the new object, the cluster is the same, and the release is complete. A
// release that is newer belongs to the first installation in a new cluster, which continues.
func TestInstalledOnceForFormerClusterObject(t *testing.T) {
	t.Parallel()
	deployed := helmtest.Record("deployed", 3, otherValues)
	byHand := helmtest.Record("deployed", 3, otherHand)
	inSync := helmtest.Record("deployed", 3)
	withTests := model.Policy{InstallOnce: true, Test: model.TestPolicy{Enabled: true}}
	for name, tc := range map[string]struct {
		records     []model.Record
		recreatedAt time.Time
		want        model.Action
	}{
		"older, with other values": {[]model.Record{deployed}, deployed.ChangedAt.Add(time.Second), model.ActionNone},
		"older, upgraded with the helm command": {[]model.Record{byHand, helmtest.Record("superseded", 2)},
			deployed.ChangedAt.Add(time.Second), model.ActionNone},
		"newer":              {[]model.Record{deployed}, deployed.ChangedAt, model.ActionUpgrade},
		"never re-created":   {[]model.Record{deployed}, time.Time{}, model.ActionUpgrade},
		"older, and in sync": {[]model.Record{inSync}, inSync.ChangedAt.Add(time.Second), model.ActionNone},
		"newer, and in sync": {[]model.Record{inSync}, inSync.ChangedAt, model.ActionTest},
		"in sync":            {[]model.Record{inSync}, time.Time{}, model.ActionTest},
	} {
		desired := helmtest.Desired()
		desired.ClusterRecreatedAt = tc.recreatedAt
		got := Next(model.Observation{Records: tc.records}, desired, withTests, model.Past{}, helmtest.Now)
		if got.Action != tc.want || (tc.want == model.ActionNone) != (got.Reason == ReasonInstalledOnce) {
			t.Errorf("%s: got %s, %s, want %s", name, got.Action, got.Reason, tc.want)
		}
	}
}

// TestInstalledOnceIsRetriedByUsers has a release that was installed once for an object that was lost. A change of the
// spec does not upgrade it, and a request of a user does.
func TestInstalledOnceIsRetriedByUsers(t *testing.T) {
	t.Parallel()
	obs := model.Observation{Records: []model.Record{helmtest.Record("deployed", 3, otherUID, otherValues)}}
	halfDeleted := []model.Record{helmtest.Record("failed", 3, otherUID, otherValues, func(r *model.Record) {
		r.Interrupted, r.MayHaveWorked = true, true
	}), helmtest.Record("superseded", 2, otherUID)}
	if got := Next(model.Observation{Records: halfDeleted}, helmtest.Desired(), model.Policy{InstallOnce: true},
		model.Past{}, helmtest.Now); got.Action != model.ActionUpgrade {
		t.Errorf("after an uninstallation that was given up: got %s, want an upgrade", got.Action)
	}
	for name, tc := range map[string]struct {
		past model.Past
		want model.Action
	}{
		"the spec changed": {model.Past{RetryRequested: true}, model.ActionNone},
		"a user's request": {model.Past{RetryRequested: true, RetryAnnotated: true}, model.ActionUpgrade},
	} {
		got := Next(obs, helmtest.Desired(), model.Policy{InstallOnce: true}, tc.past, helmtest.Now)
		if got.Action != tc.want {
			t.Errorf("%s: got %s, want %s", name, got.Action, tc.want)
		}
	}
}
