// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"strings"
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestWhyNotPinned decides about pins of a release at HelmOp revision 1.
func TestWhyNotPinned(t *testing.T) {
	t.Parallel()
	same, other := &rollout.Release{Identity: "/"}, &rollout.Release{Identity: "apps/other"}
	renamed := func(p *Pin) { p.Own = &addonsv1.HelmOpReleaseSpec{}; p.Own.Release.Name = "other" }
	for name, tc := range map[string]struct {
		number  int64
		release *rollout.Release
		change  func(*Pin)
		want    string
	}{
		"it has the revision":   {number: 1},
		"another revision":      {number: 2, release: same},
		"no number":             {want: "is not the number of a HelmOp revision"},
		"no such revision":      {number: 3, want: "there is no HelmOp revision 3; there are 1, 2"},
		"it cannot be rendered": {number: 2, want: "HelmOp revision 2 cannot be rendered for this Cluster any more"},
		"another name": {number: 2, release: other,
			want: "has another name or namespace in HelmOp revision 2: apps/other"},
		"the name changes later": {number: 1, change: renamed,
			want: "the Cluster has changed, so that its release has another name or namespace: /other"},
		"not approved": {number: 2, release: same, change: func(p *Pin) {
			p.HelmOp.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
		}, want: "is not approved for this release"},
		"good before approvals were required": {number: 2, release: same, change: func(p *Pin) {
			p.HelmOp.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
			p.Revisions[1].Status.Good = true
		}},
	} {
		p := &Pin{
			HelmOp: &addonsv1.HelmOp{}, Cluster: "a", Number: tc.number, Release: tc.release,
			Child: &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{Rollout: &addonsv1.ReleaseRollout{Revision: 1}}},
		}
		for number := range int64(2) {
			p.Revisions = append(p.Revisions, &addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{Number: number + 1}})
		}
		if tc.change != nil {
			tc.change(p)
		}
		got := ""
		if err := WhyNot(p); err != nil {
			got = err.Error()
		}
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
