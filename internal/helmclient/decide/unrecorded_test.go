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
	runRemediationCases(t, map[string]remediationCase{
		"an upgrade": {records: deployed,
			want: decided(model.ActionUpgrade, model.StateOutOfSync, ReasonArtifactChanged, 3, 4, 0, 0)},
		"an upgrade, failed": {records: deployed, past: ago(1, 3*time.Second),
			want: decided(model.ActionWait, model.StateOutOfSync, ReasonBackoff, 3, 3, 1, 7*time.Second)},
		"an upgrade, failed a while ago": {records: deployed, past: ago(1, time.Minute),
			want: decided(model.ActionUpgrade, model.StateOutOfSync, ReasonArtifactChanged, 3, 4, 1, 0)},
		"an upgrade, failed too often": {records: deployed, past: ago(11, time.Hour),
			want: decided(model.ActionStall, model.StateOutOfSync, ReasonRetriesExhausted, 3, 3, 11, 0)},
		"an installation, failed": {past: ago(2, 5*time.Second),
			want: decided(model.ActionWait, model.StateAbsent, ReasonBackoff, 0, 0, 2, 15*time.Second)},
		"an installation, failed too often": {past: ago(11, time.Hour),
			want: decided(model.ActionStall, model.StateAbsent, ReasonRetriesExhausted, 0, 0, 11, 0)},
	})
}
