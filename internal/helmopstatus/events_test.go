// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"fmt"
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestRolloutEvents has the Events of the rollout of HelmOp revision 1.
func TestRolloutEvents(t *testing.T) {
	t.Parallel()
	const started, wave = "Normal RolloutStarted HelmOp revision 1 is rolled out",
		"Normal WaveStarted HelmOp revision 1: wave canary begins"
	known := func(p *Pass) { p.HelmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 1, Wave: "canary"} }
	for name, tc := range map[string]struct {
		change        func(*Pass)
		before, after addonsv1.RolloutPhase
		want          []string
	}{
		"without spec.rollout": {change: func(p *Pass) { p.HelmOp.Spec.Rollout = nil },
			after: addonsv1.RolloutPhaseProgressing},
		"a new revision": {after: addonsv1.RolloutPhaseProgressing, want: []string{started, wave}},
		"not approved yet": {change: func(p *Pass) { p.Approval.Unapproved = true },
			after: addonsv1.RolloutPhaseProgressing},
		"just approved": {change: func(p *Pass) { known(p); p.Approval.Begins = true },
			before: addonsv1.RolloutPhaseProgressing, after: addonsv1.RolloutPhaseProgressing,
			want: []string{started, wave}},
		"the next wave": {change: func(p *Pass) { known(p); p.HelmOp.Status.Rollout.Wave = "edge" },
			before: addonsv1.RolloutPhaseProgressing, after: addonsv1.RolloutPhaseProgressing, want: []string{wave}},
		"nothing new": {change: known, before: addonsv1.RolloutPhaseProgressing, after: addonsv1.RolloutPhaseProgressing},
		"complete": {change: known, before: addonsv1.RolloutPhaseProgressing, after: addonsv1.RolloutPhaseComplete,
			want: []string{"Normal RolloutCompleted HelmOp revision 1 is rolled out completely"}},
		"paused": {change: known, before: addonsv1.RolloutPhaseProgressing, after: addonsv1.RolloutPhasePaused,
			want: []string{"Warning RolloutPaused why"}},
		"continued": {change: known, before: addonsv1.RolloutPhasePaused, after: addonsv1.RolloutPhaseProgressing,
			want: []string{"Normal RolloutContinued The rollout of HelmOp revision 1 continues"}},
		"rolled back": {change: known, before: addonsv1.RolloutPhaseProgressing, after: addonsv1.RolloutPhaseRolledBack,
			want: []string{"Warning RolloutRolledBack why"}},
	} {
		p := scopeOf()
		p.HelmOp.Spec.Rollout = &addonsv1.Rollout{}
		p.Strategy.Waves = []rollout.Wave{{Name: "canary"}}
		if tc.change != nil {
			tc.change(p)
		}
		var got []string
		for _, e := range RolloutEvents(p, tc.before, addonsv1.HelmOpRevisionStatus{Phase: tc.after, Reason: "why"}) {
			got = append(got, e.Type+" "+e.Reason+" "+e.Message)
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
