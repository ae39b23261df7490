// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/actiongate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

func stage(name string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"stage": name}}
}

func TestStrategy(t *testing.T) {
	none, _, err := strategy(nil)
	if err != nil || none.Budgeted || none.MaxUnavailable != (rollout.Limit{}) {
		t.Errorf("without spec.rollout: %+v, %v", none, err)
	}
	s, waves, err := strategy(&addonsv1.Rollout{
		MaxUnavailable: ptr.To(intstr.FromString("25%")), MinReadySeconds: 60,
		OnFailure: addonsv1.RolloutFailureActionRollback,
		Waves: []addonsv1.Wave{
			{Name: "canary", ClusterSelector: stage("canary"), Promotion: addonsv1.WavePromotionManual,
				MinReadySeconds: ptr.To[int32](0)},
			{Name: "rest", ClusterSelector: stage("rest"), MaxUnavailable: ptr.To(intstr.FromInt32(3))},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Budgeted || s.MaxFailures.Count != 1 || !s.Rollback || s.MaxUnavailable.Percent != 25 || s.Soak != time.Minute {
		t.Errorf("strategy = %+v", s)
	}
	if canary := s.Waves[0]; !canary.Manual || canary.Soak != 0 {
		t.Errorf("canary = %+v, want no soak and a promotion", canary)
	}
	if rest := s.Waves[1]; rest.Manual || rest.Soak != time.Minute || rest.MaxUnavailable.Count != 3 {
		t.Errorf("rest = %+v, want the soak of the rollout", rest)
	}
	for label, want := range map[string]int{"canary": 0, "rest": 1, "other": 2} {
		object := &unstructured.Unstructured{}
		object.SetLabels(map[string]string{"stage": label})
		if got := waveOf(&clusterScope{object: object}, waves); got != want {
			t.Errorf("wave of %s = %d, want %d", label, got, want)
		}
	}
	if got := waveOf(&clusterScope{}, waves); got != 2 {
		t.Errorf("wave of a missing Cluster = %d", got)
	}
	bad := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	if _, _, err := strategy(&addonsv1.Rollout{Waves: []addonsv1.Wave{{Name: "bad", ClusterSelector: bad}}}); err == nil ||
		!strings.Contains(err.Error(), "bad") {
		t.Errorf("a malformed selector: %v", err)
	}
}

func TestRolloutRequests(t *testing.T) {
	revision := &addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{Number: 7},
		Status: addonsv1.HelmOpRevisionStatus{LastContinueRequest: "7/1"}}
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        rollout.Requests
	}{
		"no annotations": {},
		"continue": {map[string]string{addonsv1.RolloutContinueAnnotation: "7"},
			rollout.Requests{Continue: true}},
		"continue once more": {map[string]string{addonsv1.RolloutContinueAnnotation: "7/2"},
			rollout.Requests{Continue: true}},
		"continued already":           {map[string]string{addonsv1.RolloutContinueAnnotation: "7/1"}, rollout.Requests{}},
		"continue another revision":   {map[string]string{addonsv1.RolloutContinueAnnotation: "6/9"}, rollout.Requests{}},
		"number with the same prefix": {map[string]string{addonsv1.RolloutAbortAnnotation: "70"}, rollout.Requests{}},
		"abort": {map[string]string{addonsv1.RolloutAbortAnnotation: "7"},
			rollout.Requests{Abort: true}},
		"promote": {map[string]string{addonsv1.RolloutPromoteAnnotation: "7/canary"},
			rollout.Requests{Promoted: "canary"}},
		"promote of another revision": {map[string]string{addonsv1.RolloutPromoteAnnotation: "6/canary"}, rollout.Requests{}},
		"malformed": {map[string]string{addonsv1.RolloutPromoteAnnotation: "canary", addonsv1.RolloutAbortAnnotation: "true",
			addonsv1.RolloutContinueAnnotation: strings.Repeat("x", 1<<16)}, rollout.Requests{}},
	} {
		t.Run(name, func(t *testing.T) {
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			if got := rolloutRequests(helmOp, revision); got != tc.want {
				t.Errorf("requests = %+v, want %+v", got, tc.want)
			}
			if got := rolloutRequests(helmOp, nil); got != (rollout.Requests{}) {
				t.Errorf("without a revision: %+v", got)
			}
		})
	}
}

func TestReleaseSpecFor(t *testing.T) {
	r := &Reconciler{now: func() time.Time { return controllertest.Noon }}
	spec := func(values string, assigned *addonsv1.ReleaseRollout) *addonsv1.HelmOpReleaseSpec {
		return &addonsv1.HelmOpReleaseSpec{ValuesDigest: values, Rollout: assigned}
	}
	good := &addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{Number: 3},
		Status: addonsv1.HelmOpRevisionStatus{Good: true}}
	newest := &addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{Number: 4}}
	earlier := metav1.NewTime(controllertest.Noon.Add(-time.Hour))
	later := metav1.NewTime(controllertest.Noon.Add(time.Hour))
	previous := func(values string) *addonsv1.PreviousRevision {
		return &addonsv1.PreviousRevision{Revision: 3, ValuesDigest: values}
	}
	old := previous("of 3")
	for name, tc := range map[string]struct {
		child  *addonsv1.ReleaseRollout
		values string

		// recreatedAt is when the Cluster was re-created.
		recreatedAt metav1.Time

		// released is true if the release has the desired state of the child.
		released bool

		step rollout.Step
		want addonsv1.ReleaseRollout
	}{
		"new Cluster": {values: "", step: rollout.Step{Revision: 4, Joined: true},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutJoined,
				At: metav1.NewTime(controllertest.Noon)}},
		"update stores the last known good spec": {child: &addonsv1.ReleaseRollout{Revision: 3, At: earlier}, values: "of 3",
			step: rollout.Step{Revision: 4, FailedBefore: true},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutUpdated,
				At: metav1.NewTime(controllertest.Noon), FailedBefore: true, Previous: old}},
		"update keeps the stored last known good spec": {child: &addonsv1.ReleaseRollout{Revision: 2, Previous: old},
			values: "bad", step: rollout.Step{Revision: 4},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutUpdated,
				At: metav1.NewTime(controllertest.Noon), Previous: old}},
		"same content keeps the time": {child: &addonsv1.ReleaseRollout{Revision: 2, At: earlier}, values: "new",
			step: rollout.Step{Revision: 4},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutUpdated, At: earlier}},
		"change of the Cluster keeps the reason": {child: &addonsv1.ReleaseRollout{Revision: 4,
			Reason: addonsv1.ReleaseRolloutJoined, FailedBefore: true, At: earlier},
			values: "else", step: rollout.Step{Revision: 4},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutJoined, FailedBefore: true,
				At: metav1.NewTime(controllertest.Noon)}},
		"adoption counts as an update": {child: &addonsv1.ReleaseRollout{Revision: 4,
			Reason: addonsv1.ReleaseRolloutJoined, At: earlier},
			values: "new", step: rollout.Step{Revision: 4, Adopts: true},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutUpdated, At: earlier}},
		"re-created Cluster": {child: &addonsv1.ReleaseRollout{Revision: 4, FailedBefore: true, At: earlier}, values: "new",
			recreatedAt: metav1.NewTime(controllertest.Noon.Add(-time.Minute)), step: rollout.Step{Revision: 4, Joined: true},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutJoined,
				At: metav1.NewTime(controllertest.Noon)}},
		"re-created Cluster, found by a manager whose clock is ahead": {
			child: &addonsv1.ReleaseRollout{Revision: 4, At: earlier}, values: "new", recreatedAt: later,
			step: rollout.Step{Revision: 4, Joined: true},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutJoined, At: later}},
		"re-created Cluster, after its installation": {
			child:  &addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutJoined, At: earlier},
			values: "new", recreatedAt: earlier, step: rollout.Step{Revision: 4},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutJoined, At: earlier}},
		"return to the last known good revision": {values: "bad",
			child: &addonsv1.ReleaseRollout{Revision: 4, At: earlier, Previous: old},
			step:  rollout.Step{Revision: 3, Returned: true},
			want: addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned,
				At: metav1.NewTime(controllertest.Noon), Previous: old}},
		"change of the Cluster after a return": {values: "else", released: true,
			child: &addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 3},
			want: addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutUpdated,
				At: metav1.NewTime(controllertest.Noon), Previous: previous("else")}},
		"change of the Cluster after a pin": {values: "else", released: true,
			child: &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutPinned, At: earlier},
			step:  rollout.Step{Revision: 2},
			want: addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutUpdated,
				At: metav1.NewTime(controllertest.Noon)}},
		"change of the Cluster after a pin, found by a clock that was ahead": {values: "else", released: true,
			child: &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutPinned, At: later},
			step:  rollout.Step{Revision: 2},
			want: addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutUpdated,
				At: metav1.NewTime(controllertest.Noon)}},
		"change of the Cluster during a return": {values: "else",
			child: &addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 3},
			want: addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned,
				At: metav1.NewTime(controllertest.Noon), Previous: previous("else")}},
		"same content after a return": {values: "new", released: true,
			child: &addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 3},
			want: addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned, At: earlier,
				Previous: previous("new")}},
		"same content under a later revision, during a return": {values: "new",
			child: &addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 4},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutReturned, At: earlier,
				Previous: previous("new")}},
		"same content under a later revision, during a pin that has ended": {values: "new",
			child: &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutPinned, At: earlier},
			step:  rollout.Step{Revision: 4},
			want:  addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutPinned, At: earlier}},
		"same content under a pinned revision, during a return": {values: "new",
			child: &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 4, Pinned: true},
			want:  addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutPinned, At: earlier}},
		"same content under a later revision, after a return": {values: "new", released: true,
			child: &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 4},
			want:  addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutUpdated, At: earlier}},
		"other content under a later revision, during a return": {values: "else",
			child: &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 4},
			want: addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutUpdated,
				At: metav1.NewTime(controllertest.Noon)}},
		"adoption during a return": {values: "new",
			child: &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutReturned, At: earlier},
			step:  rollout.Step{Revision: 4, Adopts: true},
			want:  addonsv1.ReleaseRollout{Revision: 4, Reason: addonsv1.ReleaseRolloutUpdated, At: earlier}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clusterScope{name: "a", step: tc.step, target: spec("new", nil)}
			if tc.child != nil {
				c.child = &addonsv1.HelmOpRelease{Spec: *spec(tc.values, tc.child)}
				c.child.Status.ClusterRecreatedAt = tc.recreatedAt
				if tc.released {
					report.SetCondition(c.child, addonsv1.ReleasedCondition, report.True, addonsv1.ReleasedReason, "")
				}
			}
			got, err := r.releaseSpecFor(&helmOpScope{revisions: []*addonsv1.HelmOpRevision{good, newest}}, c)
			if err != nil {
				t.Fatal(err)
			}
			previous, want := got.Rollout.Previous, tc.want.Previous
			got.Rollout.Previous, tc.want.Previous = nil, nil
			if *got.Rollout != tc.want || (previous == nil) != (want == nil) || previous != nil && *previous != *want {
				t.Errorf("assigned %+v and %+v, want %+v and %+v", *got.Rollout, previous, tc.want, want)
			}
		})
	}
	if _, err := r.releaseSpecFor(&helmOpScope{},
		&clusterScope{step: rollout.Step{Source: rollout.SourceOwn}}); err == nil {
		t.Error("an unknown revision is assigned")
	}
}

// TestChangeAfterReturn checks an upgrade for a change of the Cluster after a return: a failed upgrade is repeated, and
// not rolled back to the failed Helm revision itself. The upgrade waits for maintenance.
func TestChangeAfterReturn(t *testing.T) {
	r := &Reconciler{now: func() time.Time { return controllertest.Noon }}
	child := &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{Rollout: &addonsv1.ReleaseRollout{Revision: 3,
		Reason: addonsv1.ReleaseRolloutReturned, At: metav1.NewTime(controllertest.Noon.Add(-time.Hour))}}}
	report.SetCondition(child, addonsv1.ReleasedCondition, report.True, addonsv1.ReleasedReason, "")
	c := &clusterScope{name: "a", step: rollout.Step{Revision: 3}, child: child,
		target: &addonsv1.HelmOpReleaseSpec{ValuesDigest: "new"}}
	var err error
	child.Spec, err = r.releaseSpecFor(&helmOpScope{}, c)
	if err != nil {
		t.Fatal(err)
	}
	child.Generation++
	ofChild, _ := releasespec.DesiredOf(child)
	desired := helmtest.Desired()
	desired.Return = ofChild.Return
	observation := model.Observation{Records: []model.Record{helmtest.Record("failed", 4),
		helmtest.Record("superseded", 3, func(r *model.Record) { r.ValuesDigest = "other" })}}
	decision := decide.Next(observation, desired, model.Policy{}, model.Past{}, helmtest.Now)
	if decision.Action != model.ActionUpgrade {
		t.Errorf("decided %+v", decision)
	}
	if actiongate.IsExempt(maintenance.Limits{}, child, observation, decision) {
		t.Error("the upgrade does not wait for maintenance")
	}
}

// TestReturnUnderLaterRevision has a release that returns to HelmOp revision 3. Before the release has reached it, a
// user reverts the spec, so HelmOp revision 5 has the same content. The return goes on: it uses Helm's history if
// possible, and waits neither for maintenance nor for dependencies.
func TestReturnUnderLaterRevision(t *testing.T) {
	t.Parallel()
	good := helmtest.Record("superseded", 3)
	broken := helmtest.Record("deployed", 4, func(r *model.Record) { r.ValuesDigest = "other" })
	for name, tc := range map[string]struct {
		records []model.Record
		want    model.Action
	}{
		"Helm's history has the content": {[]model.Record{broken, good}, model.ActionRollback},
		"Helm's history has lost it":     {[]model.Record{broken}, model.ActionUpgrade},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{now: func() time.Time { return controllertest.Noon }}
			child := &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{ValuesDigest: "of 3",
				Rollout: &addonsv1.ReleaseRollout{Revision: 3, Reason: addonsv1.ReleaseRolloutReturned,
					At: metav1.NewTime(controllertest.Noon.Add(-time.Hour))}}}
			c := &clusterScope{name: "a", step: rollout.Step{Revision: 5}, child: child,
				target: &addonsv1.HelmOpReleaseSpec{ValuesDigest: "of 3"}}
			var err error
			child.Spec, err = r.releaseSpecFor(&helmOpScope{}, c)
			if err != nil || child.Spec.Rollout.Revision != 5 {
				t.Fatalf("assigned %+v, %v", child.Spec.Rollout, err)
			}
			child.Generation++
			ofChild, _ := releasespec.DesiredOf(child)
			desired := helmtest.Desired()
			desired.Return = ofChild.Return
			observation := model.Observation{Records: tc.records}
			decision := decide.Next(observation, desired, model.Policy{}, model.Past{}, helmtest.Now)
			if decision.Action != tc.want {
				t.Errorf("decided %+v, want %s", decision, tc.want)
			}
			if !actiongate.IsExempt(maintenance.Limits{}, child, observation, decision) {
				t.Error("the return waits for maintenance")
			}
			if actiongate.NeedsPreconditions(decision, ofChild.Return) {
				t.Error("the return waits for dependencies")
			}
		})
	}
}

func TestRevisionName(t *testing.T) {
	long := strings.Repeat("a", 253)
	names := map[string]bool{}
	for _, helmOp := range []string{"calico", "calico-1", long, long[:252] + "b"} {
		for _, number := range []int64{1, 2, 11, 1 << 40} {
			name := apiutil.RevisionName(helmOp, number)
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || names[name] {
				t.Errorf("revisionName(%.20s, %d) = %s: %v", helmOp, number, name, problems)
			}
			names[name] = true
		}
	}
}

func TestStartOf(t *testing.T) {
	noon, later := metav1.NewTime(controllertest.Noon), metav1.NewTime(controllertest.Noon.Add(2*time.Hour))
	for name, tc := range map[string]struct{ started, created, want metav1.Time }{
		"the clock was ahead":            {later, noon, noon},
		"moved by clusterctl":            {noon, later, noon},
		"not created":                    {noon, metav1.Time{}, noon},
		"without a start of the rollout": {metav1.Time{}, noon, metav1.Time{}},
	} {
		revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: tc.created},
			Status: addonsv1.HelmOpRevisionStatus{StartedAt: tc.started}}
		if got := startOf(revision); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestIsKnown(t *testing.T) {
	began, before, after := metav1.NewTime(controllertest.Noon), metav1.NewTime(controllertest.Noon.Add(-time.Hour)),
		metav1.NewTime(controllertest.Noon.Add(time.Hour))
	cluster := func(created metav1.Time) *clusterScope {
		return &clusterScope{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}}
	}
	with := func(c *clusterScope, assigned *addonsv1.ReleaseRollout) *clusterScope {
		c.child = &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{Rollout: assigned}}
		return c
	}
	served := cluster(before)
	served.cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition,
		Status: metav1.ConditionTrue, LastTransitionTime: after}}
	recreated := with(cluster(before), &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutUpdated, At: before})
	recreated.child.Status.ClusterRecreatedAt = metav1.NewTime(before.Add(time.Minute))
	for name, tc := range map[string]struct {
		cluster *clusterScope
		want    bool
	}{
		"re-created":        {recreated, false},
		"existed before":    {cluster(before), true},
		"created later":     {cluster(after), false},
		"initialized later": {served, false},
		"missing Cluster":   {&clusterScope{}, false},
		"moved with its release": {with(cluster(after),
			&addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutUpdated, At: before}), true},
		"joined with an earlier revision": {with(cluster(after),
			&addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutJoined, At: before}), true},
		"joined since": {with(cluster(after),
			&addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutJoined, At: after}), false},
		"release without a revision": {with(cluster(after), nil), true},
	} {
		if got := isKnown(tc.cluster, began); got != tc.want {
			t.Errorf("%s: known %t", name, got)
		}
	}
}

// TestPlannedReplacement checks which HelmOpReleases under deletion are replaced according to the plan's input.
func TestPlannedReplacement(t *testing.T) {
	now := metav1.NewTime(controllertest.Noon)
	for name, tc := range map[string]struct {
		deleted    *metav1.Time
		annotation string
		want       bool
	}{
		"not under deletion": {nil, "7", false},
		"under deletion":     {&now, "", false},
		"under deletion, with another HelmOp revision": {&now, "7", true},
	} {
		child := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: tc.deleted,
			Annotations: map[string]string{addonsv1.ReplacedByRevisionAnnotation: tc.annotation}}}
		planned, err := plannedCluster(&clusterScope{name: "a", child: child}, 0, "", rolloutstate.NewCache())
		if err != nil || planned.Child.Replaced != tc.want {
			t.Errorf("%s: replaced %t, %v", name, planned.Child.Replaced, err)
		}
	}
}

// TestPlannedAfterMove checks for which Clusters the plan knows that HelmOp has not read the release since a move.
func TestPlannedAfterMove(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*clusterScope)
		want   bool
	}{
		"read":            {func(*clusterScope) {}, false},
		"not initialized": {func(c *clusterScope) { c.cluster.Status.Initialization.ControlPlaneInitialized = nil }, true},
		"not initialized, and the status is restored": {func(c *clusterScope) {
			c.cluster.Status.Initialization.ControlPlaneInitialized = nil
			c.child.Status.State = "InSync"
		}, true},
		"new and not initialized": {func(c *clusterScope) {
			c.cluster.Status.Initialization.ControlPlaneInitialized, c.child = nil, nil
		}, false},
		"paused": {func(c *clusterScope) { c.cluster.Spec.Paused = new(true) }, true},
		"paused after a pass": {func(c *clusterScope) {
			c.cluster.Spec.Paused = new(true)
			report.SetNotReady(c.child, addonsv1.ControlPlaneNotInitializedReason, "")
		}, true},
		"paused after a wait for the Cluster": {func(c *clusterScope) {
			c.cluster.Spec.Paused = new(true)
			report.SetNotReady(c.child, addonsv1.ClusterNotFoundReason, "")
		}, true},
		"paused by a user": {func(c *clusterScope) {
			c.cluster.Spec.Paused, c.child.Status.State = new(true), "InSync"
		}, false},
		"paused by a user while it waits for dependencies": {func(c *clusterScope) {
			c.cluster.Spec.Paused = new(true)
			report.SetNotReady(c.child, addonsv1.WaitingForDependenciesReason, "")
		}, false},
		"not initialized, and the release is paused": {func(c *clusterScope) {
			c.cluster.Status.Initialization.ControlPlaneInitialized = nil
			c.child.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, false},
		"re-created, and not reset": {func(c *clusterScope) {
			c.cluster.Status.Initialization.ControlPlaneInitialized = nil
			c.child.Status.ClusterUID = "former"
		}, false},
		"re-created": {func(c *clusterScope) {
			c.cluster.Status.Initialization.ControlPlaneInitialized = nil
			c.child.Status.ClusterRecreatedAt = metav1.NewTime(controllertest.Noon.Add(time.Hour))
		}, false},
		"not readable": {func(c *clusterScope) { c.cluster, c.kept = &clusterv1.Cluster{}, true }, false},
		"missing, and awaited": {func(c *clusterScope) {
			c.object, c.cluster, c.awaited, c.kept = nil, &clusterv1.Cluster{}, true, true
		}, true},
		"missing, and awaited, and the release is paused": {func(c *clusterScope) {
			c.object, c.cluster, c.awaited, c.kept = nil, &clusterv1.Cluster{}, true, true
			c.child.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterScope{name: "a", object: apiutil.NewCluster(), cluster: &clusterv1.Cluster{}, selected: true,
				child: &addonsv1.HelmOpRelease{}}
			c.cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			c.child.Spec.Rollout = &addonsv1.ReleaseRollout{At: metav1.NewTime(controllertest.Noon)}
			tc.change(c)
			planned, err := plannedCluster(c, 0, "", rolloutstate.NewCache())
			if err != nil || planned.AfterMove != tc.want {
				t.Errorf("after a move: %t, %v", planned.AfterMove, err)
			}
		})
	}
}

// TestRecreatedClusterJoins checks that a later rollout treats a re-created Cluster like a new Cluster. A Cluster that
// clusterctl moved has another UID too, but its HelmOpRelease has no status.
func TestRecreatedClusterJoins(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status addonsv1.ReleaseBookkeeping
		want   addonsv1.ReleaseRolloutReason
	}{
		"re-created": {addonsv1.ReleaseBookkeeping{ClusterUID: "new",
			ClusterRecreatedAt: metav1.NewTime(controllertest.Noon.Add(-time.Minute))}, addonsv1.ReleaseRolloutJoined},
		"re-created earlier": {addonsv1.ReleaseBookkeeping{ClusterUID: "new",
			ClusterRecreatedAt: metav1.NewTime(controllertest.Noon.Add(-2 * time.Hour))}, addonsv1.ReleaseRolloutUpdated},
		"re-created, with the status of the former Cluster": {addonsv1.ReleaseBookkeeping{ClusterUID: "former"}, ""},
		"moved":          {addonsv1.ReleaseBookkeeping{}, addonsv1.ReleaseRolloutUpdated},
		"not re-created": {addonsv1.ReleaseBookkeeping{ClusterUID: "new"}, addonsv1.ReleaseRolloutUpdated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			newest := b.Revisions[1]
			newest.Spec.Artifact = &addonsv1.ResolvedArtifact{Digest: "a"}
			newest.Spec.HelmOp.Release.Name = "one"
			b.Cluster.UID = "new"
			b.Release.Spec.Rollout.At = metav1.NewTime(controllertest.Noon.Add(-time.Hour))
			b.Release.Status.ReleaseBookkeeping = tc.status
			r, scope := planNewest(t, b)
			c := scope.clusters[0]
			if tc.want == "" {
				if c.step.Action != rollout.ActionNone {
					t.Errorf("the step is %+v before the status is reset", c.step)
				}
				return
			}
			spec, err := r.releaseSpecFor(scope, c)
			if err != nil || c.step.Action != rollout.ActionUpdate || spec.Rollout.Revision != 2 ||
				spec.Rollout.Reason != tc.want {
				t.Errorf("the step is %+v, and assigns %+v, %v", c.step, spec.Rollout, err)
			}
		})
	}
}

// TestClustersAreNewWithoutOlderRevisions has a Cluster without a release that existed before the rollout of HelmOp
// revision 6 began. If the HelmOpRevisions before it are lost, the Cluster is new. The number is higher than 1 because
// a HelmOpRelease under deletion still has a lost HelmOp revision.
func TestClustersAreNewWithoutOlderRevisions(t *testing.T) {
	t.Parallel()
	for _, isLost := range []bool{true, false} {
		b := controllertest.NewReleaseBench(t)
		for i, revision := range b.Revisions {
			revision.Spec.Number, revision.Name = int64(5+i), apiutil.RevisionName(b.HelmOp.Name, int64(5+i))
			revision.Spec.Artifact = &addonsv1.ResolvedArtifact{Digest: "a"}
			revision.Status.StartedAt = metav1.NewTime(controllertest.Noon)
		}
		if isLost {
			b.Revisions = b.Revisions[1:]
		}
		b.Release.Spec.Rollout.Revision, b.Release.Finalizers = 5, []string{addonsv1.HelmOpReleaseFinalizer}
		b.Release.DeletionTimestamp = &metav1.Time{Time: controllertest.Noon}
		r, scope := newestScope(t, b)
		scope.addCluster(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "two",
			CreationTimestamp: metav1.NewTime(controllertest.Noon.Add(-time.Hour))}}, nil)
		r.plan(t, scope)
		if step := scope.clusters[1].step; step.Action != rollout.ActionCreate || step.Revision != 6 ||
			step.Joined != isLost {
			t.Errorf("older HelmOpRevisions are lost: %t, step %+v", isLost, step)
		}
	}
}

// TestReturnDuringLaterRollout has a Cluster that could not return from HelmOp revision 2 before HelmOp revision 3 was
// created. It returns although the rollout of HelmOp revision 3 is paused.
func TestReturnDuringLaterRollout(t *testing.T) {
	t.Parallel()
	for phase, want := range map[addonsv1.RolloutPhase]rollout.Step{
		addonsv1.RolloutPhaseRolledBack: {Action: rollout.ActionUpdate, Revision: 1, Returned: true},
		addonsv1.RolloutPhaseAborted:    {Action: rollout.ActionUpdate, Revision: 1, Returned: true},
		addonsv1.RolloutPhaseSuperseded: {Action: rollout.ActionUpdate, Revision: 2},
	} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.HelmOp.Spec.Rollout = &addonsv1.Rollout{Paused: true}
			b.Revisions = append(b.Revisions, b.Revisions[1].DeepCopy())
			for i, revision := range b.Revisions {
				revision.Spec.Number, revision.Spec.HelmOp.Release.Name = int64(i+1), "one"
				revision.Name = apiutil.RevisionName(b.HelmOp.Name, int64(i+1))
				revision.Spec.Artifact = &addonsv1.ResolvedArtifact{Digest: string(rune('a' + i))}
			}
			b.Revisions[0].Status.Good, b.Revisions[1].Status.Phase = true, phase
			b.Release.Spec.Rollout.Revision = 2
			_, scope := planNewest(t, b)
			step := scope.clusters[0].step
			if step.Action != want.Action || step.Revision != want.Revision || step.Returned != want.Returned {
				t.Errorf("the step is %+v, want %+v", step, want)
			}
		})
	}
}
