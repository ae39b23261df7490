// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// fleetCluster is a Cluster whose release is as wanted; the options make it otherwise.
func fleetCluster(name string, change ...func(*clusterScope)) *clusterScope {
	c := &clusterScope{
		name:     name,
		selected: true,
		cluster:  &clusterv1.Cluster{},
		target:   &addonsv1.HelmOpReleaseSpec{},
		child:    &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{Rollout: &addonsv1.ReleaseRollout{Revision: 1}}},
		step:     rollout.Step{Action: rollout.ActionNone, Assigned: true},
	}
	c.cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	report.SetCondition(c.child, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason, "")
	for _, apply := range change {
		apply(c)
	}
	return c
}

func notReady(reason string) func(*clusterScope) {
	return func(c *clusterScope) { report.SetNotReady(c.child, reason, "why "+reason) }
}

var (
	waiting = func(c *clusterScope) {
		c.cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{}
		c.child = nil
	}
	paused      = func(c *clusterScope) { c.cluster.Spec.Paused = ptr.To(true) }
	unselected  = func(c *clusterScope) { c.selected = false; c.target = nil }
	gone        = func(c *clusterScope) { c.selected, c.cluster, c.target = false, nil, nil }
	deleting    = func(c *clusterScope) { c.cluster.DeletionTimestamp = &metav1.Time{Time: controllertest.Noon} }
	unreachable = func(c *clusterScope) { report.Unreachable(c.child, "no answer") }
	unrendered  = func(c *clusterScope) { c.target, c.err = nil, errors.New("line 3: no key") }
	created     = func(c *clusterScope) { c.step.Action = rollout.ActionCreate; c.child = &addonsv1.HelmOpRelease{} }
	updated     = func(c *clusterScope) { c.step.Action = rollout.ActionUpdate }
	blocked     = func(c *clusterScope) { c.blocked = "HelmOp cni is not Ready" }
	untold      = func(c *clusterScope) { c.step.Assigned = false }
	unobserved  = func(c *clusterScope) { c.child.Generation = 2; c.child.Status.ObservedGeneration = 2 }
)

func TestPhaseOf(t *testing.T) {
	tests := map[string]struct {
		cluster     *clusterScope
		want        clusterPhase
		wantFailure string
	}{
		"as wanted":                   {fleetCluster("a"), phaseUpToDate, ""},
		"waits for its control plane": {fleetCluster("a", waiting), phaseWaiting, ""},
		"paused":                      {fleetCluster("a", paused), phasePaused, ""},
		"paused and failed":           {fleetCluster("a", notReady(addonsv1.UpgradeFailedReason), paused), phasePaused, ""},
		"just created":                {fleetCluster("a", created), phaseProgressing, ""},
		"a new revision is assigned":  {fleetCluster("a", updated), phaseProgressing, ""},
		"has not looked yet":          {fleetCluster("a", unobserved), phaseProgressing, ""},
		"about to be updated":         {fleetCluster("a", notReady(addonsv1.UpdatingReason)), phaseProgressing, ""},
		"does not answer":             {fleetCluster("a", unreachable), phaseUnreachable, ""},
		"a template fails":            {fleetCluster("a", unrendered), phaseFailed, addonsv1.TemplateFailedReason},
		"an upgrade failed": {fleetCluster("a", notReady(addonsv1.UpgradeFailedReason)), phaseFailed,
			addonsv1.UpgradeFailedReason},
		"a conflict": {fleetCluster("a", notReady(addonsv1.ReleaseConflictReason)), phaseFailed,
			addonsv1.ReleaseConflictReason},
		"unselected, ending": {fleetCluster("a", unselected, notReady(addonsv1.DeletingReason)), phaseProgressing,
			""},
		"unselected, cannot be ended": {fleetCluster("a", unselected, notReady(addonsv1.UninstallFailedReason)), phaseFailed,
			addonsv1.UninstallFailedReason},
		"gone": {fleetCluster("a", gone), phaseProgressing, ""},
		"has another revision": {fleetCluster("a", func(c *clusterScope) { c.child.Spec.Rollout.Revision = 3 }),
			phaseProgressing, ""},
		"a dependency blocks it":    {fleetCluster("a", blocked, untold), phaseBlocked, ""},
		"as wanted, others are not": {fleetCluster("a", blocked), phaseUpToDate, ""},
		"waits for a dependency":    {fleetCluster("a", notReady(addonsv1.WaitingForDependenciesReason)), phaseBlocked, ""},
		"waits for an image":        {fleetCluster("a", notReady(addonsv1.ImagesMissingReason)), phaseBlocked, ""},
		"is part of a cycle":        {fleetCluster("a", notReady(addonsv1.DependencyCycleReason)), phaseBlocked, ""},
		"failed while others are not": {fleetCluster("a", blocked, untold, notReady(addonsv1.UpgradeFailedReason)),
			phaseFailed, addonsv1.UpgradeFailedReason},
		"unselected and waits": {fleetCluster("a", unselected, blocked, untold), phaseProgressing, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			phase, failure := phaseOf(tc.cluster, 1)
			if phase != tc.want {
				t.Errorf("phase = %s, want %s", phase, tc.want)
			}
			got := ""
			if failure != nil {
				got = failure.Reason
			}
			if got != tc.wantFailure {
				t.Errorf("failure = %q, want %q", got, tc.wantFailure)
			}
		})
	}
}

// scopeOf is a pass over Clusters with the desired HelmOp revision 1.
func scopeOf(clusters ...*clusterScope) *helmOpScope {
	return &helmOpScope{
		helmOp: &addonsv1.HelmOp{}, artifact: &addonsv1.ResolvedArtifact{}, clusters: clusters,
		desired:   &compiledRevision{number: 1},
		revisions: []*addonsv1.HelmOpRevision{{Spec: addonsv1.HelmOpRevisionSpec{Number: 1}}},
	}
}

// TestWhyNotPinned decides about pins of a release at HelmOp revision 1.
func TestWhyNotPinned(t *testing.T) {
	t.Parallel()
	same, other := &rollout.Release{Identity: "/"}, &rollout.Release{Identity: "apps/other"}
	renamed := func(c *clusterScope) { c.own = &addonsv1.HelmOpReleaseSpec{}; c.own.Release.Name = "other" }
	for name, tc := range map[string]struct {
		number  int64
		release *rollout.Release
		change  func(*clusterScope, *helmOpScope)
		want    string
	}{
		"it has the revision":   {number: 1},
		"another revision":      {number: 2, release: same},
		"no number":             {want: "is not the number of a HelmOp revision"},
		"no such revision":      {number: 3, want: "there is no HelmOp revision 3; there are 1, 2"},
		"it cannot be rendered": {number: 2, want: "HelmOp revision 2 cannot be rendered for this Cluster any more"},
		"another name": {number: 2, release: other,
			want: "has another name or namespace in HelmOp revision 2: apps/other"},
		"the name changes later": {number: 1, change: func(c *clusterScope, _ *helmOpScope) { renamed(c) },
			want: "the Cluster has changed, so that its release has another name or namespace: /other"},
		"not approved": {number: 2, release: same, change: func(_ *clusterScope, s *helmOpScope) {
			s.helmOp.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
		}, want: "is not approved for this release"},
		"good before approvals were required": {number: 2, release: same, change: func(_ *clusterScope, s *helmOpScope) {
			s.helmOp.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
			s.revisions[1].Status.Good = true
		}},
	} {
		c := fleetCluster("a")
		scope := scopeOf(c)
		scope.revisions = append(scope.revisions,
			&addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{Number: 2}})
		if tc.change != nil {
			tc.change(c, scope)
		}
		got := ""
		if err := whyNotPinned(scope, c, tc.number, tc.release); err != nil {
			got = err.Error()
		}
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestPhaseOfNothingResolved(t *testing.T) {
	if phase, failure := phaseOf(fleetCluster("a"), 0); phase != phaseProgressing || failure != nil {
		t.Errorf("what runs while nothing is resolved is %s, %v", phase, failure)
	}
}

func TestSummarize(t *testing.T) {
	s := summarize(scopeOf([]*clusterScope{
		fleetCluster("a"), fleetCluster("b", updated), fleetCluster("c", waiting), fleetCluster("d", paused),
		fleetCluster("e", unreachable), fleetCluster("f", unrendered), fleetCluster("g", unselected),
		fleetCluster("h", gone), fleetCluster("i", deleting), fleetCluster("j", created),
	}...))
	want := addonsv1.ClusterCounts{Selected: 7, UpToDate: 1, Ready: 4, Failed: 1, Waiting: 1, Unreachable: 1, Paused: 1}
	if s.counts != want {
		t.Errorf("counts = %+v, want %+v", s.counts, want)
	}
	if s.ending != 2 {
		t.Errorf("ending = %d, want 2", s.ending)
	}
	if len(s.failures) != 1 || s.failures[0].Cluster != "f" {
		t.Errorf("failures = %v, want that of f", s.failures)
	}
}

func TestSummarizeIsBounded(t *testing.T) {
	var clusters []*clusterScope
	for i := range 500 {
		clusters = append(clusters, fleetCluster(fmt.Sprintf("c%03d", 499-i), func(c *clusterScope) {
			c.target, c.err = nil, errors.New(strings.Repeat("ä", 5000))
		}))
	}
	s := summarize(scopeOf(clusters...))
	if s.counts.Failed != 500 || len(s.failures) != maxReportedFailures || s.failures[0].Cluster != "c000" {
		t.Errorf("failed = %d, %d reported, the first of %s; want 500, %d, c000",
			s.counts.Failed, len(s.failures), s.failures[0].Cluster, maxReportedFailures)
	}
	if len(s.failures[0].Message) > report.MaxConditionMessage {
		t.Errorf("a message has %d bytes", len(s.failures[0].Message))
	}
}

// TestUnrenderableRolloutWaitsForCorrection checks that a rollout whose release cannot be rendered waits for a
// correction of the HelmOp, and not for a Cluster.
func TestUnrenderableRolloutWaitsForCorrection(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters []*clusterScope
		inFlight int
		want     string
	}{
		"none can be rendered": {clusters: []*clusterScope{fleetCluster("a", unrendered, untold),
			fleetCluster("b", unrendered, untold)}, want: "cannot be rendered for 2 of 2"},
		"one has it, the other not": {clusters: []*clusterScope{fleetCluster("a"), fleetCluster("b", unrendered, untold)},
			want: "cannot be rendered for 1 of 2"},
		"others are on their way": {clusters: []*clusterScope{fleetCluster("a"), fleetCluster("b", unrendered, untold)},
			inFlight: 1, want: "the plan"},
		"others wait for their turn": {clusters: []*clusterScope{fleetCluster("a", untold),
			fleetCluster("b", unrendered, untold)}, want: "the plan"},
		"it cannot be written": {clusters: []*clusterScope{fleetCluster("a", untold,
			func(c *clusterScope) { c.err = reasons.ErrRecord })}, want: "the plan"},
		"all have it": {clusters: []*clusterScope{fleetCluster("a")}, want: "the plan"},
	} {
		scope := scopeOf(tc.clusters...)
		scope.revisions[0].Status.Phase = addonsv1.RolloutPhaseProgressing
		scope.plan.Progress = rollout.Progress{WaitingFor: "the plan", InFlight: tc.inFlight}
		if got := waitingFor(scope); !strings.Contains(got, tc.want) {
			t.Errorf("%s: it waits for %q, want %q", name, got, tc.want)
		}
	}
}

func TestReadyCondition(t *testing.T) {
	artifact := &addonsv1.ResolvedArtifact{}
	scope := scopeOf
	held := func(phase addonsv1.RolloutPhase) *helmOpScope {
		s := scope(fleetCluster("a"), fleetCluster("b", notReady(addonsv1.UpgradeFailedReason)))
		s.revisions[0].Status = addonsv1.HelmOpRevisionStatus{Phase: phase, Reason: "1 Cluster failed"}
		return s
	}
	tests := map[string]struct {
		scope      *helmOpScope
		wantStatus metav1.ConditionStatus
		wantReason string
	}{
		"all as wanted": {scope(fleetCluster("a"), fleetCluster("b")), metav1.ConditionTrue, addonsv1.ReadyReason},
		"a paused Cluster does not count": {scope(fleetCluster("a"), fleetCluster("b", paused)),
			metav1.ConditionTrue, addonsv1.ReadyReason},
		"none selected": {scope(), metav1.ConditionTrue, addonsv1.NoClustersSelectedReason},
		"the rollout is paused": {held(addonsv1.RolloutPhasePaused), metav1.ConditionFalse,
			addonsv1.RolloutPausedReason},
		"the rollout is rolled back": {held(addonsv1.RolloutPhaseRolledBack), metav1.ConditionFalse,
			addonsv1.RolloutRolledBackReason},
		"the rollout is aborted": {held(addonsv1.RolloutPhaseAborted), metav1.ConditionFalse,
			addonsv1.RolloutAbortedReason},
		"one is blocked": {scope(fleetCluster("a"), fleetCluster("b", blocked, untold)),
			metav1.ConditionFalse, addonsv1.WaitingForDependenciesReason},
		"one waits for a dependency": {scope(fleetCluster("a"),
			fleetCluster("b", notReady(addonsv1.WaitingForDependenciesReason))),
			metav1.ConditionFalse, addonsv1.WaitingForDependenciesReason},
		"there is a cycle": {func() *helmOpScope {
			s := scope(fleetCluster("a", blocked))
			s.dependencyErr = &dependencyError{addonsv1.DependencyCycleReason, "a → b → a"}
			return s
		}(), metav1.ConditionFalse, addonsv1.DependencyCycleReason},
		"one on its way": {scope(fleetCluster("a"), fleetCluster("b", updated)), metav1.ConditionFalse,
			addonsv1.ProgressingReason},
		"one waits": {scope(fleetCluster("a"), fleetCluster("b", waiting)), metav1.ConditionFalse,
			addonsv1.WaitingForClustersReason},
		"one is silent": {scope(fleetCluster("a"), fleetCluster("b", unreachable)), metav1.ConditionFalse,
			addonsv1.WaitingForClustersReason},
		"one failed": {scope(fleetCluster("a", waiting), fleetCluster("b", unrendered)), metav1.ConditionFalse,
			addonsv1.ReleasesFailedReason},
		"one is ending": {scope(fleetCluster("a"), fleetCluster("b", unselected)), metav1.ConditionFalse,
			addonsv1.ProgressingReason},
		"nothing is known of the source": {&helmOpScope{helmOp: &addonsv1.HelmOp{}},
			metav1.ConditionFalse, addonsv1.ProgressingReason},
		"the source fails": {func() *helmOpScope {
			s := &helmOpScope{helmOp: &addonsv1.HelmOp{}}
			report.SetCondition(s.helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason,
				"down")
			return s
		}(), metav1.ConditionFalse, addonsv1.RegistryUnreachableReason},
		"the source fails but was resolved before": {func() *helmOpScope {
			s := scope(fleetCluster("a"))
			report.SetCondition(s.helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason,
				"down")
			return s
		}(), metav1.ConditionTrue, addonsv1.ReadyReason},
		"the signatures cannot be checked": {func() *helmOpScope {
			s := &helmOpScope{helmOp: &addonsv1.HelmOp{}, artifact: artifact}
			report.SetCondition(s.helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason,
				"no keys")
			return s
		}(), metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason},
		"the selector is malformed": {&helmOpScope{helmOp: &addonsv1.HelmOp{}, artifact: artifact,
			selectorErr: errors.New("bad")},
			metav1.ConditionFalse, addonsv1.InvalidSelectorReason},
		"the template does not parse, nothing is selected": {&helmOpScope{helmOp: &addonsv1.HelmOp{}, artifact: artifact,
			programErr: errors.New("bad")},
			metav1.ConditionFalse, addonsv1.TemplateFailedReason},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := readyCondition(tc.scope, summarize(tc.scope))
			if got.Status != tc.wantStatus || got.Reason != tc.wantReason {
				t.Errorf("Ready = %s/%s (%s), want %s/%s", got.Status, got.Reason, got.Message, tc.wantStatus, tc.wantReason)
			}
			if got.Message == "" {
				t.Error("the condition says nothing")
			}
		})
	}
}

// TestWaitingForClustersMessage checks that the message of Ready has only the causes that exist.
func TestWaitingForClustersMessage(t *testing.T) {
	for want, clusters := range map[string][]*clusterScope{
		"1 of 2 Clusters is up to date; 1 Cluster has no initialized control plane": {
			fleetCluster("a"), fleetCluster("b", waiting)},
		"0 of 2 Clusters are up to date; 2 Clusters are unreachable": {
			fleetCluster("a", unreachable), fleetCluster("b", unreachable)},
		"1 of 3 Clusters is up to date; 1 Cluster has no initialized control plane; 1 Cluster is unreachable": {
			fleetCluster("a"), fleetCluster("b", waiting), fleetCluster("c", unreachable)},
		"spec.clusterSelector selects no Cluster: check the labels of the Clusters": {},
	} {
		s := scopeOf(clusters...)
		if got := readyCondition(s, summarize(s)); got.Message != want {
			t.Errorf("the message of Ready is %q, want %q", got.Message, want)
		}
	}
}

func BenchmarkSummarize(b *testing.B) {
	clusters := make([]*clusterScope, 10_000)
	for i := range clusters {
		clusters[i] = fleetCluster(fmt.Sprintf("c%05d", i))
	}
	scope := scopeOf(clusters...)
	b.ReportAllocs()
	for b.Loop() {
		summarize(scope)
	}
}

func TestReportMovable(t *testing.T) {
	object := func(name string, change ...func(*metav1.ObjectMeta)) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		for _, apply := range change {
			apply(&secret.ObjectMeta)
		}
		return secret
	}
	labelled := func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"clusterctl.cluster.x-k8s.io/move": ""} }
	owned := func(apiVersion string) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Any", Name: "any", UID: "1"}}
		}
	}
	for name, tc := range map[string]struct {
		secret     *corev1.Secret
		account    string
		management *addonsv1.ManagementCluster
		want       string
	}{
		"labelled":           {secret: object("values", labelled)},
		"owned by a Cluster": {secret: object("values", owned("cluster.x-k8s.io/v1beta2"))},
		"owned by a HelmOp":  {secret: object("values", owned("addons.cluster.x-k8s.io/v1alpha1"))},
		"owned by another": {secret: object("values", owned("apps/v1")),
			want: "label secret/values clusterctl.cluster.x-k8s.io/move="},
		"not labelled": {secret: object("values"),
			want: "kubectl -n ns label secret/values clusterctl.cluster.x-k8s.io/move="},
		"an account": {secret: object("values", labelled), account: "puller",
			want: "does not move ServiceAccounts; create puller in the other management cluster"},
		"the management cluster": {secret: object("values", labelled),
			management: &addonsv1.ManagementCluster{ImpersonateServiceAccountName: "admin"},
			want:       "create admin in the other management cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
			helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: apiutil.KindSecret, Name: "values"},
				{Kind: apiutil.KindConfigMap, Name: "missing", Optional: true}}
			helmOp.Spec.Source.ImagePullServiceAccountName, helmOp.Spec.ManagementCluster = tc.account, tc.management
			secrets := controllertest.ClientOf(tc.secret)
			references := references.NewReader(secrets, secrets)
			r := &Reconciler{references: references}
			if err := r.reportMovable(t.Context(), &helmOpScope{helmOp: helmOp}); err != nil {
				t.Fatal(err)
			}
			movable := conditions.Get(helmOp, addonsv1.MovableCondition)
			if isMovable := movable.Status == metav1.ConditionTrue; isMovable != (tc.want == "") ||
				!strings.Contains(movable.Message, tc.want) {
				t.Errorf("Movable is %s: %s", movable.Status, movable.Message)
			}
			helmOp.Spec.ValuesFrom, helmOp.Spec.Source.ImagePullServiceAccountName, helmOp.Spec.ManagementCluster = nil, "", nil
			if err := r.reportMovable(t.Context(), &helmOpScope{helmOp: helmOp}); err != nil ||
				conditions.Get(helmOp, addonsv1.MovableCondition) != nil {
				t.Errorf("without references there is a condition, or %v", err)
			}
		})
	}
}

// TestMovableNamesFirstUnlabelledObjects checks that the condition names the first unlabelled objects of single
// Clusters, and the number of all.
func TestMovableNamesFirstUnlabelledObjects(t *testing.T) {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	scope := &helmOpScope{helmOp: helmOp}
	var objects []client.Object
	for i := range 25 {
		name := fmt.Sprintf("cloud-%02d", i)
		objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
		scope.clusters = append(scope.clusters, &clusterScope{references: []render.ClusterReference{
			{Kind: apiutil.KindSecret, Name: name}, {Kind: apiutil.KindSecret, Name: "missing"},
		}})
	}
	secrets := controllertest.ClientOf(objects...)
	r := &Reconciler{references: references.NewReader(secrets, secrets)}
	if err := r.reportMovable(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	movable := conditions.Get(helmOp, addonsv1.MovableCondition)
	for _, want := range []string{"does not move 25 objects without its label; label the first 10 of them: kubectl",
		"secret/cloud-00 ", "secret/cloud-09 clusterctl"} {
		if movable.Status != metav1.ConditionFalse || !strings.Contains(movable.Message, want) {
			t.Errorf("%q is not in %s: %s", want, movable.Status, movable.Message)
		}
	}
}
