// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// inPhase returns a pass over Clusters while the rollout of revision 1 is in the given phase.
func inPhase(phase addonsv1.RolloutPhase, change func(*Pass), clusters ...*Cluster) *Pass {
	p := scopeOf(clusters...)
	p.Revisions[0].Status = addonsv1.HelmOpRevisionStatus{Phase: phase, Reason: "why it ended"}
	if change != nil {
		change(p)
	}
	return p
}

func TestRollingOutCondition(t *testing.T) {
	t.Parallel()
	unresolved := func(reason string) func(*Pass) {
		return func(s *Pass) {
			s.Artifact, s.Revisions = nil, nil
			if reason != "" {
				report.SetCondition(s.HelmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, reason, "")
			}
		}
	}
	userPaused := func(s *Pass) { s.Strategy.Paused = true }
	inFlight := func(s *Pass) { s.Plan.Progress.InFlight = 1 }
	leaves := func(denied, unknown int) func(*Pass) {
		return func(s *Pass) {
			s.HelmOp.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{AuthorizationServiceAccountName: "sa"}
			s.Denied, s.UnknownAccess = denied, unknown
		}
	}
	const (
		yes, no, unknown        = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
		progressing, complete   = addonsv1.RolloutPhaseProgressing, addonsv1.RolloutPhaseComplete
		held, returned, aborted = addonsv1.RolloutPhasePaused, addonsv1.RolloutPhaseRolledBack, addonsv1.RolloutPhaseAborted
	)
	has, lacks := fleetCluster("a"), fleetCluster("b", untold)
	for name, tc := range map[string]struct {
		p       *Pass
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"no Cluster": {inPhase(complete, nil), no, addonsv1.NotRollingOutReason,
			"assigned to 0 of 0 Clusters"},
		"no Cluster is left": {inPhase(progressing, nil), no, addonsv1.NotRollingOutReason, "assigned to 0 of 0 Clusters"},
		"a wave waits for its promotion": {inPhase(progressing, func(s *Pass) { s.Plan.Progress.Promote = "canary" },
			has, lacks), yes, addonsv1.RolloutPausedReason, "1 of 2 Clusters"},
		"the new source is not resolved": {inPhase(complete, func(s *Pass) { s.Artifact = nil }, has), unknown,
			addonsv1.ProgressingReason, "the source is not resolved"},
		"complete": {inPhase(complete, nil, has), no, addonsv1.NotRollingOutReason,
			"HelmOp revision 1 is assigned to 1 of 1 Cluster"},
		"one lacks it": {inPhase(progressing, nil, has, lacks), yes, addonsv1.RollingOutReason,
			"1 of 2 Clusters"},
		"a new Cluster": {inPhase(complete, nil, has, lacks), yes, addonsv1.RollingOutReason,
			"1 of 2 Clusters"},
		"still soaking": {inPhase(progressing, nil, has), yes, addonsv1.RollingOutReason, "1 of 1 Cluster"},
		"one is in flight": {inPhase(complete, inFlight, has), yes, addonsv1.RollingOutReason,
			"1 of 1 Cluster"},
		"paused Cluster": {inPhase(complete, nil, has, fleetCluster("c", paused)), no,
			addonsv1.NotRollingOutReason, "1 of 1"},
		"paused by a user": {inPhase(progressing, userPaused, has, lacks), yes, addonsv1.RolloutPausedReason,
			"1 of 2"},
		"complete, then paused by a user": {inPhase(complete, userPaused, has), no, addonsv1.NotRollingOutReason, "1 of 1"},
		"budget spent": {inPhase(held, nil, has, lacks), yes, addonsv1.RolloutPausedReason,
			"why it ended"},
		"returning": {inPhase(returned, inFlight, has), yes, addonsv1.RolloutRolledBackReason,
			"why it ended"},
		"returned": {inPhase(returned, nil, has), no, addonsv1.RolloutRolledBackReason,
			"why it ended"},
		"aborted, returned": {inPhase(aborted, nil, has), no, addonsv1.RolloutAbortedReason, "why it ended"},
		"not resolved": {inPhase("", unresolved(""), has), unknown, addonsv1.ProgressingReason,
			"no HelmOp revision"},
		"cannot be resolved": {inPhase("", unresolved(addonsv1.RegistryUnreachableReason), has), unknown,
			addonsv1.RegistryUnreachableReason, "no HelmOp revision"},
		"first Clusters are left out": {inPhase("", func(s *Pass) { s.Revisions = nil; leaves(1, 0)(s) }), no,
			addonsv1.NotRollingOutReason, "no Cluster is selected; 1 Cluster in another namespace is not selected"},
		"cannot be rendered for the first Cluster": {inPhase("", func(s *Pass) { s.Revisions = nil }, has), unknown,
			addonsv1.ProgressingReason, "no HelmOp revision"},
		"invalid selector": {inPhase(complete, func(s *Pass) { s.SelectorErr = errors.New("bad") }), unknown,
			addonsv1.InvalidSelectorReason, "bad"},
		"one is left out": {inPhase(complete, leaves(1, 0), has), no, addonsv1.NotRollingOutReason,
			"; 1 Cluster in another namespace is not selected: ServiceAccount sa may not get its kubeconfig"},
		"several are left out": {inPhase(complete, leaves(2, 3), has), no, addonsv1.NotRollingOutReason,
			"; 2 Clusters in other namespaces are not selected: ServiceAccount sa may not get their kubeconfigs; grant " +
				"the right to get the Secret; 3 Clusters in other namespaces are not selected yet: the API server " +
				"did not answer whether the HelmOp may access them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := rollingOutCondition(tc.p, summarize(tc.p))
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("RollingOut = %s/%s (%s), want %s/%s (%s)", got.Status, got.Reason, got.Message,
					tc.status, tc.reason, tc.message)
			}
		})
	}
}

func TestIsStalled(t *testing.T) {
	t.Parallel()
	stalledRelease := func(c *Cluster) {
		report.SetCondition(c.Child, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason, "")
	}
	failing := fleetCluster("b", notReady(addonsv1.UpgradeFailedReason))
	gaveUp := fleetCluster("c", notReady(addonsv1.UpgradeFailedReason), stalledRelease)
	outdated := fleetCluster("e", notReady(addonsv1.UpgradeFailedReason), stalledRelease, func(c *Cluster) {
		c.Child.Generation = 2
		report.SetNotReady(c.Child, addonsv1.ObservationFailedReason, "503")
	})
	inFlight := func(s *Pass) { s.Plan.Progress.InFlight = 1 }
	fails := func(err error) *Cluster {
		return fleetCluster("d", func(c *Cluster) { c.Err = err })
	}
	with := func(change func(*Pass), clusters ...*Cluster) *Pass {
		return inPhase(addonsv1.RolloutPhaseComplete, change, clusters...)
	}
	resolved := func(reason string) func(*Pass) {
		return func(s *Pass) {
			s.Artifact = nil
			report.SetCondition(s.HelmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, reason, "")
		}
	}
	held := func(phase addonsv1.RolloutPhase) *Pass { return inPhase(phase, nil, fleetCluster("a")) }
	for name, tc := range map[string]struct {
		p    *Pass
		want bool
	}{
		"ready":                                      {with(nil, fleetCluster("a")), false},
		"progressing":                                {with(nil, fleetCluster("a", updated)), false},
		"waits for a Cluster":                        {with(nil, fleetCluster("a", waiting)), false},
		"waits for a dependency":                     {with(nil, fleetCluster("a", blocked, untold)), false},
		"a release is retried":                       {with(nil, failing), false},
		"a release is not retried":                   {with(nil, fleetCluster("a"), gaveUp), true},
		"one of two is retried":                      {with(nil, failing, gaveUp), false},
		"others are updated":                         {with(inFlight, fleetCluster("a", updated), gaveUp), false},
		"others wait for a wave that failed":         {with(nil, fleetCluster("a", untold, updated), gaveUp), true},
		"another waits for its control plane":        {with(nil, fleetCluster("a", waiting), gaveUp), false},
		"another does not answer":                    {with(nil, fleetCluster("a", unreachable), gaveUp), false},
		"another waits for a dependency":             {with(nil, fleetCluster("a", blocked, untold), gaveUp), false},
		"it was not retried before the spec changed": {with(nil, outdated), false},
		"access is not known": {with(nil, fails(fmt.Errorf("503: %w", selection.ErrAccessUnknown))),
			false},
		"the registry of an override is down": {with(nil, fails(&reasons.UnresolvedError{
			Reason: addonsv1.RegistryUnreachableReason})), false},
		"the tag of an override does not exist": {with(nil, fails(&reasons.UnresolvedError{
			Reason: addonsv1.ArtifactNotFoundReason})), true},
		"more failures than are named":            {with(nil, manyFailures()...), true},
		"a template fails":                        {with(nil, fails(errors.New("no such key"))), true},
		"a release cannot be written":             {with(nil, fails(fmt.Errorf("quota: %w", reasons.ErrRecord))), false},
		"an object cannot be read":                {with(nil, fails(fmt.Errorf("503: %w", render.ErrObjectRead))), false},
		"the registry is down":                    {with(resolved(addonsv1.RegistryUnreachableReason)), false},
		"the registry limits requests":            {with(resolved(addonsv1.RegistryRateLimitedReason)), false},
		"no such artifact":                        {with(resolved(addonsv1.ArtifactNotFoundReason)), true},
		"the budget is spent":                     {held(addonsv1.RolloutPhasePaused), true},
		"the budget is spent, others are updated": {inPhase(addonsv1.RolloutPhasePaused, inFlight, fleetCluster("a")), false},
		"rolled back":                             {held(addonsv1.RolloutPhaseRolledBack), true},
		"Clusters still return": {inPhase(addonsv1.RolloutPhaseRolledBack, nil, fleetCluster("a", untold)),
			false},
		"aborted":             {held(addonsv1.RolloutPhaseAborted), true},
		"deletions are held":  {with(func(s *Pass) { s.Deletions.Held = true }), true},
		"an invalid selector": {with(func(s *Pass) { s.SelectorErr = errors.New("bad") }), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			summary := summarize(tc.p)
			ready := readyCondition(tc.p, summary)
			if got := isStalled(tc.p, ready, summary); got != tc.want {
				t.Errorf("stalled = %t with Ready %s/%s (%s), want %t", got, ready.Status, ready.Reason, ready.Message, tc.want)
			}
		})
	}
}

func manyFailures() []*Cluster {
	var clusters []*Cluster
	for i := range 2 * maxReportedFailures {
		clusters = append(clusters, fleetCluster(fmt.Sprintf("c%02d", i), unrendered))
	}
	return clusters
}

func TestReadyCondition(t *testing.T) {
	artifact := &addonsv1.ResolvedArtifact{}
	p := scopeOf
	held := func(phase addonsv1.RolloutPhase) *Pass {
		s := p(fleetCluster("a"), fleetCluster("b", notReady(addonsv1.UpgradeFailedReason)))
		s.Revisions[0].Status = addonsv1.HelmOpRevisionStatus{Phase: phase, Reason: "1 Cluster failed"}
		return s
	}
	tests := map[string]struct {
		p          *Pass
		wantStatus metav1.ConditionStatus
		wantReason string
	}{
		"all as wanted": {p(fleetCluster("a"), fleetCluster("b")), metav1.ConditionTrue, addonsv1.ReadyReason},
		"a paused Cluster does not count": {p(fleetCluster("a"), fleetCluster("b", paused)),
			metav1.ConditionTrue, addonsv1.ReadyReason},
		"clusterctl move may still create revisions": {func() *Pass {
			s := p(fleetCluster("a"))
			s.AwaitsRevisions = true
			return s
		}(), metav1.ConditionFalse, addonsv1.ProgressingReason},
		"none selected": {p(), metav1.ConditionTrue, addonsv1.NoClustersSelectedReason},
		"the rollout is paused": {held(addonsv1.RolloutPhasePaused), metav1.ConditionFalse,
			addonsv1.RolloutPausedReason},
		"the rollout is rolled back": {held(addonsv1.RolloutPhaseRolledBack), metav1.ConditionFalse,
			addonsv1.RolloutRolledBackReason},
		"the rollout is aborted": {held(addonsv1.RolloutPhaseAborted), metav1.ConditionFalse,
			addonsv1.RolloutAbortedReason},
		"one is blocked": {p(fleetCluster("a"), fleetCluster("b", blocked, untold)),
			metav1.ConditionFalse, addonsv1.WaitingForDependenciesReason},
		"one waits for a dependency": {p(fleetCluster("a"),
			fleetCluster("b", notReady(addonsv1.WaitingForDependenciesReason))),
			metav1.ConditionFalse, addonsv1.WaitingForDependenciesReason},
		"there is a cycle": {func() *Pass {
			s := p(fleetCluster("a", blocked))
			s.DependencyErr = &DependencyError{addonsv1.DependencyCycleReason, "a → b → a"}
			return s
		}(), metav1.ConditionFalse, addonsv1.DependencyCycleReason},
		"one on its way": {p(fleetCluster("a"), fleetCluster("b", updated)), metav1.ConditionFalse,
			addonsv1.ProgressingReason},
		"one waits": {p(fleetCluster("a"), fleetCluster("b", waiting)), metav1.ConditionFalse,
			addonsv1.WaitingForClustersReason},
		"one is silent": {p(fleetCluster("a"), fleetCluster("b", unreachable)), metav1.ConditionFalse,
			addonsv1.WaitingForClustersReason},
		"one failed": {p(fleetCluster("a", waiting), fleetCluster("b", unrendered)), metav1.ConditionFalse,
			addonsv1.ReleasesFailedReason},
		"the upgrade of one waits for a confirmation": {p(
			fleetCluster("a", notReady(addonsv1.ConfirmationRequiredReason))),
			metav1.ConditionFalse, addonsv1.ConfirmationRequiredReason},
		"the uninstallation of one waits for a confirmation": {p(fleetCluster("a"),
			fleetCluster("b", gone, notReady(addonsv1.ConfirmationRequiredReason))),
			metav1.ConditionFalse, addonsv1.ConfirmationRequiredReason},
		"one waits for a confirmation, and one failed": {p(fleetCluster("a", unrendered),
			fleetCluster("b", unselected, notReady(addonsv1.ConfirmationRequiredReason))),
			metav1.ConditionFalse, addonsv1.ReleasesFailedReason},
		"one is ending": {p(fleetCluster("a"), fleetCluster("b", unselected)), metav1.ConditionFalse,
			addonsv1.ProgressingReason},
		"nothing is known of the source": {&Pass{HelmOp: &addonsv1.HelmOp{}},
			metav1.ConditionFalse, addonsv1.ProgressingReason},
		"the source fails": {func() *Pass {
			s := &Pass{HelmOp: &addonsv1.HelmOp{}}
			report.SetCondition(s.HelmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason,
				"down")
			return s
		}(), metav1.ConditionFalse, addonsv1.RegistryUnreachableReason},
		"the source fails but was resolved before": {func() *Pass {
			s := p(fleetCluster("a"))
			report.SetCondition(s.HelmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason,
				"down")
			return s
		}(), metav1.ConditionTrue, addonsv1.ReadyReason},
		"the signatures cannot be checked": {func() *Pass {
			s := &Pass{HelmOp: &addonsv1.HelmOp{}, Artifact: artifact}
			report.SetCondition(s.HelmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason,
				"no keys")
			return s
		}(), metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason},
		"the selector is malformed": {&Pass{HelmOp: &addonsv1.HelmOp{}, Artifact: artifact,
			SelectorErr: errors.New("bad")},
			metav1.ConditionFalse, addonsv1.InvalidSelectorReason},
		"the template does not parse, nothing is selected": {&Pass{HelmOp: &addonsv1.HelmOp{}, Artifact: artifact,
			ProgramErr: errors.New("bad")},
			metav1.ConditionFalse, addonsv1.TemplateFailedReason},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := readyCondition(tc.p, summarize(tc.p))
			if got.Status != tc.wantStatus || got.Reason != tc.wantReason {
				t.Errorf("Ready = %s/%s (%s), want %s/%s", got.Status, got.Reason, got.Message, tc.wantStatus, tc.wantReason)
			}
			if got.Message == "" {
				t.Error("the condition says nothing")
			}
		})
	}
}

// TestConfirmationIsAwaited checks the status of a HelmOp whose release in the management cluster is not uninstalled
// before a user confirms it. The HelmOp waits for the user, and its message is that of the release.
func TestConfirmationIsAwaited(t *testing.T) {
	t.Parallel()
	got := Of(scopeOf(fleetCluster(apiutil.ManagementTitle, gone, notReady(addonsv1.ConfirmationRequiredReason))))
	if got.Ready.Message != "Why "+addonsv1.ConfirmationRequiredReason || !got.IsStalled || !got.IsWorthWarning {
		t.Errorf("%+v", got)
	}
}

// TestSilentReleasesAreReported checks that the HelmOp reports releases that have not reported anything for more than a
// minute, and only these.
func TestSilentReleasesAreReported(t *testing.T) {
	t.Parallel()
	const silent = "; 1 new release waits for a slot or the first check"
	aged := func(age time.Duration) func(*Cluster) {
		return func(c *Cluster) {
			c.Child.Status.Conditions = nil
			c.Child.CreationTimestamp = metav1.NewTime(controllertest.Noon.Add(-age))
		}
	}
	old, young := aged(silence+time.Second), aged(silence)
	for want, clusters := range map[string][]*Cluster{
		"1 of 3 Clusters is up to date" + silent: {fleetCluster("a"), fleetCluster("b", old), fleetCluster("c", young)},
		"0 of 3 Clusters are up to date; 2 new releases wait for a slot or the first check": {
			fleetCluster("a", old), fleetCluster("b", old), fleetCluster("c", young)},
		"0 of 2 Clusters are up to date": {fleetCluster("a", old, paused), fleetCluster("b", young)},
		"1 of 2 Clusters waits for dependencies; a: Why " + addonsv1.WaitingForDependenciesReason + silent: {
			fleetCluster("a", notReady(addonsv1.WaitingForDependenciesReason)), fleetCluster("b", old)},
	} {
		p := scopeOf(clusters...)
		p.Now = controllertest.Noon
		if got := readyCondition(p, summarize(p)).Message; got != want {
			t.Errorf("the message of Ready is %q, want %q", got, want)
		}
	}
}

// TestWaitingForClustersMessage checks that the message of Ready has only the causes that exist.
func TestWaitingForClustersMessage(t *testing.T) {
	for want, clusters := range map[string][]*Cluster{
		"1 of 2 Clusters is up to date; 1 Cluster has no initialized control plane": {
			fleetCluster("a"), fleetCluster("b", waiting)},
		"0 of 2 Clusters are up to date; 2 Clusters are unreachable": {
			fleetCluster("a", unreachable), fleetCluster("b", unreachable)},
		"1 of 3 Clusters is up to date; 1 Cluster has no initialized control plane; 1 Cluster is unreachable": {
			fleetCluster("a"), fleetCluster("b", waiting), fleetCluster("c", unreachable)},
		"1 of 3 Clusters is up to date; 1 Cluster has no initialized control plane; 1 Cluster of a moved or restored " +
			"HelmOpRelease does not exist yet: move or restore it, or do what the condition Ready of the HelmOpRelease says": {
			fleetCluster("a"), fleetCluster("b", waiting), fleetCluster("c", awaited)},
		"0 of 2 Clusters are up to date; 2 Clusters of moved or restored HelmOpReleases do not exist yet: move or " +
			"restore them, or do what the condition Ready of the HelmOpReleases says": {
			fleetCluster("a", awaited), fleetCluster("b", awaited)},
		"spec.clusterSelector selects no Cluster: check the labels of the Clusters": {},
	} {
		s := scopeOf(clusters...)
		if got := readyCondition(s, summarize(s)); got.Message != want {
			t.Errorf("the message of Ready is %q, want %q", got.Message, want)
		}
	}
}

// TestBlockedCondition checks that the message names the first waiting Cluster and its cause.
func TestBlockedCondition(t *testing.T) {
	t.Parallel()
	missing := func(name string) *Cluster {
		return fleetCluster(name, notReady(addonsv1.ImagesMissingReason))
	}
	unknown := fleetCluster("a", notReady(addonsv1.ImagesUnknownReason))
	for name, tc := range map[string]struct {
		clusters        []*Cluster
		reason, message string
	}{
		"images": {[]*Cluster{fleetCluster("z"), missing("a"), missing("b")}, addonsv1.ImagesMissingReason,
			"2 of 3 Clusters wait for images; a: Why ImagesMissing"},
		"unknown images": {[]*Cluster{unknown}, addonsv1.ImagesUnknownReason,
			"1 of 1 Cluster waits for images; a: Why ImagesUnknown"},
		"images and dependencies": {[]*Cluster{missing("a"), fleetCluster("b", blocked, untold)},
			addonsv1.WaitingForDependenciesReason, "1 of 2 Clusters waits for dependencies; b: HelmOp cni is not Ready"},
		"images, while another Cluster is deleted": {[]*Cluster{missing("a"),
			fleetCluster("b", notReady(addonsv1.ImagesMissingReason), deleting)}, addonsv1.ImagesMissingReason,
			"1 of 1 Cluster waits for images; a: Why ImagesMissing"},
	} {
		p := scopeOf(tc.clusters...)
		ready := readyCondition(p, summarize(p))
		if ready.Status != metav1.ConditionFalse || ready.Reason != tc.reason || ready.Message != tc.message {
			t.Errorf("%s: %+v", name, ready)
		}
	}
}
