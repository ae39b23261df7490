// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestUnrenderableRolloutWaitsForCorrection checks a rollout whose release cannot be rendered. It must wait for a
// correction of the HelmOp, and not for a Cluster.
func TestUnrenderableRolloutWaitsForCorrection(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters []*Cluster
		inFlight int
		want     string
	}{
		"none can be rendered": {clusters: []*Cluster{fleetCluster("a", unrendered, untold),
			fleetCluster("b", unrendered, untold)}, want: "cannot be rendered for 2 of 2"},
		"one has it, the other not": {clusters: []*Cluster{fleetCluster("a"), fleetCluster("b", unrendered, untold)},
			want: "cannot be rendered for 1 of 2"},
		"others are on their way": {clusters: []*Cluster{fleetCluster("a"), fleetCluster("b", unrendered, untold)},
			inFlight: 1, want: "the plan"},
		"others wait for their turn": {clusters: []*Cluster{fleetCluster("a", untold),
			fleetCluster("b", unrendered, untold)}, want: "the plan"},
		"it cannot be written": {clusters: []*Cluster{fleetCluster("a", untold,
			func(c *Cluster) { c.Err = reasons.ErrRecord })}, want: "the plan"},
		"all have it": {clusters: []*Cluster{fleetCluster("a")}, want: "the plan"},
	} {
		p := scopeOf(tc.clusters...)
		p.Revisions[0].Status.Phase = addonsv1.RolloutPhaseProgressing
		p.Plan.Progress = rollout.Progress{WaitingFor: "the plan", InFlight: tc.inFlight}
		if got := waitingFor(p); !strings.Contains(got, tc.want) {
			t.Errorf("%s: it waits for %q, want %q", name, got, tc.want)
		}
	}
}

func TestWaitingForPromotion(t *testing.T) {
	p := &Pass{HelmOp: &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}}
	p.Plan.Progress = rollout.Progress{WaitingFor: "the promotion of wave canary", Promote: "canary"}
	if got := waitingFor(p); got != "the promotion of wave canary" {
		t.Errorf("without a revision it waits for %q", got)
	}
	p.Revisions = []*addonsv1.HelmOpRevision{{Spec: addonsv1.HelmOpRevisionSpec{Number: 7}}}
	if got := waitingFor(p); !strings.HasSuffix(got,
		"kubectl -n ns annotate helmops.addons.cluster.x-k8s.io a --overwrite "+
			"addons.cluster.x-k8s.io/rollout-promote=7/canary") {
		t.Errorf("it waits for %q", got)
	}
}

func TestWaitingForApproval(t *testing.T) {
	const promotion, annotate = "the promotion of wave canary: kubectl -n ns annotate helmops.addons.cluster.x-k8s.io a " +
		"--overwrite addons.cluster.x-k8s.io/rollout-promote=7/canary",
		": kubectl -n ns annotate helmops.addons.cluster.x-k8s.io a --overwrite " +
			"addons.cluster.x-k8s.io/rollout-approve=7/5e8d"
	for name, tc := range map[string]struct {
		approval approval.Decision
		progress rollout.Progress
		want     string
	}{
		"approved": {approval: approval.Decision{Required: true, Revision: 7, Digest: "5e8d"}},
		"a revision": {
			approval: approval.Decision{Required: true, Revision: 7, Digest: "5e8d", Unapproved: true},
			progress: rollout.Progress{WaitingFor: "the approval of HelmOp revision 7"},
			want:     "the approval of HelmOp revision 7 (kubectl helmop approve a -n ns)" + annotate,
		},
		"no release is known": {
			approval: approval.Decision{Required: true, Revision: 7, Unapproved: true},
			progress: rollout.Progress{WaitingFor: "the approval of HelmOp revision 7"},
			want:     "the approval of HelmOp revision 7",
		},
		"changed releases": {
			approval: approval.Decision{Required: true, Revision: 7, Digest: "5e8d", Waiting: []string{"one", "two"}},
			want:     "the approval of changes in 2 Clusters (kubectl helmop approve a -n ns)" + annotate,
		},
		"changed releases and a promotion": {
			approval: approval.Decision{Required: true, Revision: 7, Digest: "5e8d", Waiting: []string{"one"}},
			progress: rollout.Progress{WaitingFor: "the promotion of wave canary", Promote: "canary"},
			want:     "the approval of changes in 1 Cluster (kubectl helmop approve a -n ns); " + promotion,
		},
	} {
		p := &Pass{HelmOp: &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}},
			Revisions: []*addonsv1.HelmOpRevision{{Spec: addonsv1.HelmOpRevisionSpec{Number: 7}}}, Approval: tc.approval}
		p.Plan.Progress = tc.progress
		if got := waitingFor(p); got != tc.want {
			t.Errorf("%s: it waits for %q, want %q", name, got, tc.want)
		}
	}
}
