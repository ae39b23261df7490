// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
)

// TestNext checks what the commands recommend.
func TestNext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOp)
		want   []string
	}{
		"nothing":                {nil, nil},
		"promote":                {fleettest.Awaiting, []string{"x rollout promote h -n ns --wave=one --revision=7"}},
		"approve":                {fleettest.AwaitingApproval("abc"), []string{"x approve h -n ns"}},
		"approved":               {fleettest.Approved, nil},
		"nothing to approve yet": {fleettest.AwaitingApproval(""), nil},
		"approve and resume": {func(h *addonsv1.HelmOp) {
			fleettest.AwaitingApproval("abc")(h)
			h.Spec.Rollout.Paused = true
		}, []string{"x approve h -n ns", "x rollout resume h -n ns"}},
		"paused": {fleettest.Phase(addonsv1.RolloutPhasePaused),
			[]string{"x rollout continue h -n ns --revision=7", "x rollout abort h -n ns --revision=7"}},
		"paused without a good revision": {func(h *addonsv1.HelmOp) {
			h.Status.Rollout.Phase, h.Status.Rollout.LastGoodRevision = addonsv1.RolloutPhasePaused, 0
		}, []string{"x rollout continue h -n ns --revision=7"}},
		"rolled back": {fleettest.Phase(addonsv1.RolloutPhaseRolledBack), []string{"x rollout undo h -n ns --to-revision=6"}},
		"spec.rollout.paused": {func(h *addonsv1.HelmOp) { h.Spec.Rollout.Paused = true },
			[]string{"x rollout resume h -n ns"}},
		"spec.paused": {func(h *addonsv1.HelmOp) { h.Spec.Paused = true }, []string{"x resume h -n ns"}},
		"paused by annotation": {func(h *addonsv1.HelmOp) { h.Annotations["cluster.x-k8s.io/paused"] = "" },
			[]string{"kubectl -n ns annotate helmops.addons.cluster.x-k8s.io h cluster.x-k8s.io/paused-"}},
		"moved by clusterctl": {func(h *addonsv1.HelmOp) {
			h.Status.Conditions = []metav1.Condition{fleettest.Condition("Ready=True/Ready"),
				fleettest.Condition("Paused=True/BeingMoved")}
		}, []string{"kubectl -n ns annotate helmops.addons.cluster.x-k8s.io h clusterctl.cluster.x-k8s.io/delete-for-move-"}},
		"not resolved": {func(h *addonsv1.HelmOp) {
			h.Status.Conditions = append(h.Status.Conditions, fleettest.Condition("Resolved=False/NoMatchingTag"))
		}, []string{"x reconcile h -n ns"}},
		"not ready for another reason": {func(h *addonsv1.HelmOp) {
			h.Status.Conditions = []metav1.Condition{fleettest.Condition("Ready=False/TemplateFailed")}
		}, []string{"x describe h -n ns"}},
		"waits for a confirmation in the management cluster": {func(h *addonsv1.HelmOp) {
			h.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "management cluster",
				Reason: addonsv1.ConfirmationRequiredReason}}
		}, []string{"x describe h -n ns --cluster 'management cluster'", "x confirm h -n ns"}},
		"a conflict": {func(h *addonsv1.HelmOp) {
			h.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "one", Reason: addonsv1.ReleaseConflictReason}}
		}, []string{"x describe h -n ns --cluster one", "x retry h -n ns"}},
		"being deleted in a rollout": {func(h *addonsv1.HelmOp) {
			fleettest.Awaiting(h)
			fleettest.Deleting(h)
			h.Status.Deletions = &addonsv1.DeletionStatus{Waiting: 2}
			h.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "one"}}
		}, []string{"x status h -n ns --watch"}},
		"being deleted, and paused": {func(h *addonsv1.HelmOp) {
			fleettest.Deleting(h)
			h.Spec.Paused = true
		}, []string{"x resume h -n ns", "x status h -n ns --watch"}},
		"held, and failed in the management cluster": {func(h *addonsv1.HelmOp) {
			h.Status.Deletions = &addonsv1.DeletionStatus{Waiting: 2}
			h.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "management cluster"}}
		}, []string{"x confirm h -n ns", "x describe h -n ns --cluster 'management cluster'", "x retry h -n ns"}},
	} {
		var got []string
		for _, step := range NextForHelmOp(fleettest.Rolling(tc.change), Program{Name: "x"}) {
			got = append(got, step.Command)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestSummaryOfDeleted checks that the summary of a HelmOp under deletion has no rollout and no counts from before.
func TestSummaryOfDeleted(t *testing.T) {
	t.Parallel()
	summary := SummaryOf(fleettest.Rolling(func(h *addonsv1.HelmOp) {
		fleettest.Awaiting(h)
		fleettest.Deleting(h)
		h.Status.Clusters = &addonsv1.ClusterCounts{Failed: 1}
	}), Program{Name: "x"})
	const want = "h: not Ready (Deleting); wait until the releases are uninstalled. To see what each release waits for: " +
		"x status h -n ns --watch"
	if line := summary.Line(noon, false); line != want || summary.Unhealthy || summary.Clusters != nil {
		t.Errorf("got %q", line)
	}
}

// TestSummaryOfChanged checks the summary of a HelmOp that HelmOp has not reconciled since its creation or its last
// change.
func TestSummaryOfChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*addonsv1.HelmOp){
		"changed": func(h *addonsv1.HelmOp) { h.Generation = 4 },
		"created": func(h *addonsv1.HelmOp) { h.Status.Conditions = nil },
	} {
		helmOp := fleettest.Rolling(change)
		helmOp.Status.Rollout = nil
		summary := SummaryOf(helmOp, Program{})
		const want = "h: not reconciled yet; wait until the last change is reconciled. If this takes longer than a minute, " +
			"check that the manager runs"
		if line := summary.Line(noon, false); line != want || summary.Ready != metav1.ConditionUnknown || !summary.Unhealthy {
			t.Errorf("%s: got %q, %s, %v", name, line, summary.Ready, summary.Unhealthy)
		}
		helmOp.Spec.Paused = true
		if summary := SummaryOf(helmOp, Program{}); summary.Unhealthy {
			t.Errorf("%s, and paused: unhealthy", name)
		}
	}
}

// TestNextForFailure checks that a retry is recommended only if it begins at once.
func TestNextForFailure(t *testing.T) {
	t.Parallel()
	at := metav1.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const retry = "x retry h -n ns --cluster one"
	for name, tc := range map[string]struct {
		row     Row
		at      metav1.Time
		want    string
		command string
		lostTo  string
	}{
		"no more tries": {Row{Reason: addonsv1.ReleaseConflictReason}, metav1.Time{}, ", then retry", retry, ""},
		"lost": {Row{Reason: addonsv1.ReleaseConflictReason}, metav1.Time{},
			`HelmOp "ns.next" has taken over the release`, "", "ns.next"},
		"lost to another management cluster": {Row{Reason: addonsv1.ReleaseConflictReason}, metav1.Time{},
			`HelmOp "h" in another management cluster has`, "", "management-cluster/1"},
		"stalled": {Row{State: StateStalled, Reason: addonsv1.UpgradeFailedReason}, metav1.Time{}, "The retries are spent",
			retry, ""},
		"a confirmation": {Row{Reason: addonsv1.ConfirmationRequiredReason}, metav1.Time{}, "confirm the deletion of objects",
			"x confirm h -n ns", ""},
		"a next try": {Row{Reason: addonsv1.UpgradeFailedReason}, at,
			"HelmOp tries again at 2026-11-28T12:00:00Z, or at once", retry, ""},
		"another action": {Row{Reason: addonsv1.ReleasePendingReason}, at,
			"when the other action ends, or at 2026-11-28T12:00:00Z at the latest", "", ""},
		"maintenance": {Row{Reason: addonsv1.UpgradeFailedReason, Message: apiutil.RetryAwaitsMaintenance + ": no"}, at,
			"when maintenance permits it at 2026-11-28T12:00:00Z", "", ""},
		"maintenance without an end": {Row{Reason: addonsv1.UpgradeFailedReason,
			Message: apiutil.RetryAwaitsMaintenance + ": no"}, metav1.Time{}, "when maintenance permits it; a retry", "", ""},
	} {
		tc.row.State, tc.row.Cluster = cmp.Or(tc.row.State, StateFailed), "one"
		release := &addonsv1.HelmOpRelease{}
		release.Status.NextTryAt = tc.at
		if tc.lostTo != "" {
			release.Annotations = map[string]string{addonsv1.LostToAnnotation: tc.lostTo}
		}
		steps := NextForRelease(fleettest.Rolling(nil), release, &tc.row, Program{Name: "x"})
		if tc.lostTo != "" {
			const takesBack = ". A retry of this release takes it back"
			if strings.HasSuffix(steps[0].Why, takesBack) {
				t.Errorf("%s, without takeOwnership: %+v", name, steps)
			}
			release.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: ptr.To(true)}
			steps = NextForRelease(fleettest.Rolling(nil), release, &tc.row, Program{Name: "x"})
			if !strings.HasSuffix(steps[0].Why, takesBack) {
				t.Errorf("%s, with takeOwnership: %+v", name, steps)
			}
		}
		if len(steps) != 1 || !strings.Contains(steps[0].Why, tc.want) || steps[0].Command != tc.command {
			t.Errorf("%s: %+v", name, steps)
		}
	}
}
