// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// inPhase is a pass over Clusters while the rollout of revision 1 is in a phase.
func inPhase(phase addonsv1.RolloutPhase, change func(*helmOpScope), clusters ...*clusterScope) *helmOpScope {
	scope := scopeOf(clusters...)
	scope.revisions[0].Status = addonsv1.HelmOpRevisionStatus{Phase: phase, Reason: "why it ended"}
	if change != nil {
		change(scope)
	}
	return scope
}

func TestRollingOutCondition(t *testing.T) {
	t.Parallel()
	unresolved := func(reason string) func(*helmOpScope) {
		return func(s *helmOpScope) {
			s.artifact, s.revisions = nil, nil
			if reason != "" {
				report.SetCondition(s.helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, reason, "")
			}
		}
	}
	userPaused := func(s *helmOpScope) { s.strategy.Paused = true }
	inFlight := func(s *helmOpScope) { s.plan.Progress.InFlight = 1 }
	leaves := func(denied, unknown int) func(*helmOpScope) {
		return func(s *helmOpScope) {
			s.helmOp.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{AuthorizationServiceAccountName: "sa"}
			s.denied, s.unknownAccess = denied, unknown
		}
	}
	const (
		yes, no, unknown        = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
		progressing, complete   = addonsv1.RolloutPhaseProgressing, addonsv1.RolloutPhaseComplete
		held, returned, aborted = addonsv1.RolloutPhasePaused, addonsv1.RolloutPhaseRolledBack, addonsv1.RolloutPhaseAborted
	)
	has, lacks := fleetCluster("a"), fleetCluster("b", untold)
	for name, tc := range map[string]struct {
		scope   *helmOpScope
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"no Cluster": {inPhase(complete, nil), no, addonsv1.NotRollingOutReason,
			"assigned to 0 of 0 Clusters"},
		"no Cluster is left": {inPhase(progressing, nil), no, addonsv1.NotRollingOutReason, "assigned to 0 of 0 Clusters"},
		"a wave waits for its promotion": {inPhase(progressing, func(s *helmOpScope) { s.plan.Progress.Promote = "canary" },
			has, lacks), yes, addonsv1.RolloutPausedReason, "1 of 2 Clusters"},
		"the new source is not resolved": {inPhase(complete, func(s *helmOpScope) { s.artifact = nil }, has), unknown,
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
		"first Clusters are left out": {inPhase("", func(s *helmOpScope) { s.revisions = nil; leaves(1, 0)(s) }), no,
			addonsv1.NotRollingOutReason, "no Cluster is selected; 1 Cluster in another namespace is not selected"},
		"cannot be rendered for the first Cluster": {inPhase("", func(s *helmOpScope) { s.revisions = nil }, has), unknown,
			addonsv1.ProgressingReason, "no HelmOp revision"},
		"invalid selector": {inPhase(complete, func(s *helmOpScope) { s.selectorErr = errors.New("bad") }), unknown,
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
			got := rollingOutCondition(tc.scope, summarize(tc.scope))
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("RollingOut = %s/%s (%s), want %s/%s (%s)", got.Status, got.Reason, got.Message,
					tc.status, tc.reason, tc.message)
			}
		})
	}
}

func TestIsStalled(t *testing.T) {
	t.Parallel()
	stalledRelease := func(c *clusterScope) {
		report.SetCondition(c.child, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason, "")
	}
	failing := fleetCluster("b", notReady(addonsv1.UpgradeFailedReason))
	gaveUp := fleetCluster("c", notReady(addonsv1.UpgradeFailedReason), stalledRelease)
	outdated := fleetCluster("e", notReady(addonsv1.UpgradeFailedReason), stalledRelease, func(c *clusterScope) {
		c.child.Generation = 2
		report.SetNotReady(c.child, addonsv1.ObservationFailedReason, "503")
	})
	inFlight := func(s *helmOpScope) { s.plan.Progress.InFlight = 1 }
	fails := func(err error) *clusterScope {
		return fleetCluster("d", func(c *clusterScope) { c.target, c.err = nil, err })
	}
	with := func(change func(*helmOpScope), clusters ...*clusterScope) *helmOpScope {
		return inPhase(addonsv1.RolloutPhaseComplete, change, clusters...)
	}
	resolved := func(reason string) func(*helmOpScope) {
		return func(s *helmOpScope) {
			s.artifact = nil
			report.SetCondition(s.helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, reason, "")
		}
	}
	held := func(phase addonsv1.RolloutPhase) *helmOpScope { return inPhase(phase, nil, fleetCluster("a")) }
	for name, tc := range map[string]struct {
		scope *helmOpScope
		want  bool
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
		"deletions are held":  {with(func(s *helmOpScope) { s.deletions.Held = true }), true},
		"an invalid selector": {with(func(s *helmOpScope) { s.selectorErr = errors.New("bad") }), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			summary := summarize(tc.scope)
			ready := readyCondition(tc.scope, summary)
			if got := isStalled(tc.scope, ready, summary); got != tc.want {
				t.Errorf("stalled = %t with Ready %s/%s (%s), want %t", got, ready.Status, ready.Reason, ready.Message, tc.want)
			}
		})
	}
}

func manyFailures() []*clusterScope {
	var clusters []*clusterScope
	for i := range 2 * maxReportedFailures {
		clusters = append(clusters, fleetCluster(fmt.Sprintf("c%02d", i), unrendered))
	}
	return clusters
}

func TestReportSetsAndRemovesStalled(t *testing.T) {
	t.Parallel()
	scope := inPhase(addonsv1.RolloutPhaseComplete, nil, fleetCluster("a"))
	scope.selectorErr = errors.New("bad")
	r := &Reconciler{recorder: events.NewFakeRecorder(10)}
	r.report(scope)
	stalled := conditions.Get(scope.helmOp, addonsv1.StalledCondition)
	if stalled == nil || stalled.Reason != addonsv1.InvalidSelectorReason || stalled.Message != "bad" {
		t.Errorf("Stalled is %v", stalled)
	}
	scope.selectorErr = nil
	r.report(scope)
	if stalled := conditions.Get(scope.helmOp, addonsv1.StalledCondition); stalled != nil {
		t.Errorf("Stalled stays: %v", stalled)
	}
}
