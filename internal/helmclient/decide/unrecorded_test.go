// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestDecideCountsAttemptsWithoutRecord checks that attempts count that ended while the chart was rendered, and so left
// no record.
func TestDecideCountsAttemptsWithoutRecord(t *testing.T) {
	t.Parallel()
	deployed := []model.Record{helmtest.Record("deployed", 3, otherArtifact)}
	decided := func(action model.Action, state model.State, reason string, from, to, count int,
		after time.Duration) Decision {
		return Decision{Action: action, State: state, Reason: reason, FromRevision: from, ToRevision: to, Failures: count,
			RequeueAfter: after}
	}
	ago := func(count int, since time.Duration) model.Past {
		return model.Past{Failures: count, FailedAt: helmtest.Now.Add(-since)}
	}
	foreign := []model.Record{helmtest.Record("deployed", 3, unlabelled)}
	running := []model.Record{helmtest.Record("superseded", 3)}
	adopts := model.Policy{TakeOwnership: true}
	for name, tc := range map[string]struct {
		records []model.Record
		state   model.State
		action  model.Action
		reason  string
		to      int
	}{
		"an adoption": {foreign, model.StateForeign, model.ActionAdopt, ReasonAdopt, 3},
		"an adoption of a failed release": {[]model.Record{helmtest.Record("failed", 3, unlabelled)}, model.StateForeign,
			model.ActionUpgrade, ReasonAdopt, 4},
		"a revision by hand": {[]model.Record{helmtest.Record("deployed", 3, otherHand)}, model.StateUnmanaged,
			model.ActionUpgrade, ReasonChangedOutsideHelmOp, 4},
		"a revision that is not deployed": {running, model.StateOutOfSync, model.ActionUpgrade, ReasonNotDeployed, 4},
	} {
		runRemediationCases(t, map[string]remediationCase{
			name: {records: tc.records, policy: adopts,
				want: decided(tc.action, tc.state, tc.reason, 3, tc.to, 0, 0)},
			name + ", failed": {records: tc.records, policy: adopts, past: ago(1, 3*time.Second),
				want: decided(model.ActionWait, tc.state, ReasonBackoff, 3, 3, 1, 7*time.Second)},
			name + ", failed a while ago": {records: tc.records, policy: adopts, past: ago(1, time.Minute),
				want: decided(tc.action, tc.state, tc.reason, 3, tc.to, 1, 0)},
			name + ", failed too often": {records: tc.records, policy: adopts, past: ago(11, time.Hour),
				want: decided(model.ActionStall, tc.state, ReasonRetriesExhausted, 3, 3, 11, 0)},
			name + ", retry requested": {records: tc.records, policy: adopts,
				past: model.Past{Failures: 11, FailedAt: helmtest.Now, RetryRequested: true},
				want: decided(tc.action, tc.state, tc.reason, 3, tc.to, 0, 0)},
		})
	}
	begun := []model.Record{helmtest.Record("uninstalling", 3, uninstalling)}
	byHand := []model.Record{helmtest.Record("deployed", 4, otherHand), helmtest.Record("failed", 3, failures(10))}
	runRemediationCases(t, map[string]remediationCase{
		"a revision by hand, after attempts with records": {records: byHand, past: ago(11, time.Minute),
			want: Decision{Action: model.ActionUpgrade, State: model.StateUnmanaged, Reason: ReasonChangedOutsideHelmOp,
				FromRevision: 4, ToRevision: 5, Failures: 11}},
		"an upgrade": {records: deployed,
			want: decided(model.ActionUpgrade, model.StateOutOfSync, ReasonArtifactChanged, 3, 4, 0, 0)},
		"an upgrade, failed": {records: deployed, past: ago(1, 3*time.Second),
			want: decided(model.ActionWait, model.StateOutOfSync, ReasonBackoff, 3, 3, 1, 7*time.Second)},
		"an upgrade, failed a while ago": {records: deployed, past: ago(1, time.Minute),
			want: decided(model.ActionUpgrade, model.StateOutOfSync, ReasonArtifactChanged, 3, 4, 1, 0)},
		"an upgrade, failed too often": {records: deployed, past: ago(11, time.Hour),
			want: decided(model.ActionStall, model.StateOutOfSync, ReasonRetriesExhausted, 3, 3, 11, 0)},
		"an uninstallation that did not complete, failed": {records: begun, past: ago(1, 3*time.Second),
			want: decided(model.ActionWait, model.StateUninstalling, ReasonBackoff, 3, 3, 1, 7*time.Second)},
		"an uninstallation that did not complete, failed too often": {records: begun, past: ago(11, time.Hour),
			want: decided(model.ActionStall, model.StateUninstalling, ReasonRetriesExhausted, 3, 3, 11, 0)},
		"an upgrade of another state that was interrupted, failed": {
			records: []model.Record{helmtest.Record("pending-upgrade", 3, otherArtifact)}, past: ago(1, 3*time.Second),
			want: decided(model.ActionWait, model.StatePending, ReasonBackoff, 3, 3, 1, 7*time.Second)},
		"an installation, failed": {past: ago(2, 5*time.Second),
			want: decided(model.ActionWait, model.StateAbsent, ReasonBackoff, 0, 0, 2, 15*time.Second)},
		"an installation, failed too often": {past: ago(11, time.Hour),
			want: decided(model.ActionStall, model.StateAbsent, ReasonRetriesExhausted, 0, 0, 11, 0)},
	})
}
