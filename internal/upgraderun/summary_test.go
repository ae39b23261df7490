// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	v36, v37 := apilifecycle.Version{Major: 1, Minor: 36}, apilifecycle.Version{Major: 1, Minor: 37}
	problem := upgradecheck.Finding{Step: "v1.37", ToDo: true, Message: "chart 1.0.0 excludes v1.37", WayOut: "raise it"}
	long := problem
	long.Message = strings.Repeat("a long message ", 100)
	remark := upgradecheck.Finding{Step: "v1.37", Message: "a remark", WayOut: "nothing"}
	for want, result := range map[string]Result{
		"The cluster runs v1.36 already, so the upgrade to v1.37 removes no API":                                                                          {From: v36},
		"The release is ready for Kubernetes v1.37":                                                                                                       {Steps: []apilifecycle.Version{v37}},
		"The release is ready for Kubernetes v1.37 with version 2.0.0 of the add-on":                                                                      {Steps: []apilifecycle.Version{v37}, Chart: "2.0.0", Findings: []upgradecheck.Finding{remark}},
		"The release is not ready for Kubernetes v1.37 with version 2.0.0 of the add-on: from v1.37 on: chart 1.0.0 excludes v1.37; what to do: raise it": {Steps: []apilifecycle.Version{v37}, Chart: "2.0.0", Findings: []upgradecheck.Finding{remark, problem}},
		"shows 2 more problems": {Steps: []apilifecycle.Version{v37}, Findings: []upgradecheck.Finding{long, problem, problem, problem}},
	} {
		got := result.Summary("v1.37", func(text string) string { return text })
		if !strings.HasSuffix(got, want) || len(got) > report.MaxConditionMessage {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSummaryHidesBeforeItCutsOff checks that a secret at the place where a message is cut off is hidden completely.
func TestSummaryHidesBeforeItCutsOff(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-password"
	for at := maxFinding - len(secret) - 4; at < maxFinding; at++ {
		problem := upgradecheck.Finding{Step: "v1.37", ToDo: true, Message: strings.Repeat("x", at) + " " + secret + " end",
			WayOut: "raise it"}
		result := Result{Steps: []apilifecycle.Version{{Major: 1, Minor: 37}}, Findings: []upgradecheck.Finding{problem}}
		got := result.Summary("v1.37", helmerr.NewRedactor(nil, []any{secret}).Hide)
		if strings.Contains(got, secret[:4]) {
			t.Errorf("at %d: got %q", at, got)
		}
	}
}
