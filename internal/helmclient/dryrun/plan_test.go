// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestPlannedDecisionForReleaseOfOther plans for a release of another HelmOp, and for a release without an owner. Like
// the manager, a plan does not take back a release that another HelmOp has taken over.
func TestPlannedDecisionForReleaseOfOther(t *testing.T) {
	t.Parallel()
	takes, lost := model.Policy{TakeOwnership: true}, model.Past{WasOurs: true}
	const other, none = "default.other", ""
	for name, test := range map[string]struct {
		owner   string
		policy  model.Policy
		past    model.Past
		want    model.Action
		message string
	}{
		"without the right":  {owner: other, want: model.ActionRefuse, message: `belongs to HelmOp "default.other"`},
		"taken over":         {owner: other, policy: takes, want: model.ActionAdopt},
		"lost":               {owner: other, policy: takes, past: lost, want: model.ActionRefuse, message: "has taken over"},
		"lost to no HelmOp":  {owner: none, policy: takes, past: lost, want: model.ActionAdopt},
		"other failures too": {owner: other, policy: takes, past: model.Past{Failures: 3}, want: model.ActionAdopt},
	} {
		record := helmtest.Record("deployed", 3, func(r *model.Record) {
			if r.Owner = test.owner; test.owner == none {
				*r = model.Record{Revision: r.Revision, Status: r.Status, ChangedAt: r.ChangedAt}
			}
		})
		observation := model.Observation{Records: []model.Record{record}}
		got := plannedDecision(observation, helmtest.Desired(), test.policy, test.past, helmtest.Now)
		if got.Action != test.want || !strings.Contains(got.Message, test.message) {
			t.Errorf("%s: %s %q", name, got.Action, got.Message)
		}
	}
}
