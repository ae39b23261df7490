// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// fleetCluster returns a Cluster whose release is up to date. The functions can change this.
func fleetCluster(name string, change ...func(*Cluster)) *Cluster {
	c := &Cluster{
		Name:     name,
		Selected: true,
		Cluster:  &clusterv1.Cluster{},
		Child:    &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{Rollout: &addonsv1.ReleaseRollout{Revision: 1}}},
		Step:     rollout.Step{Action: rollout.ActionNone, Assigned: true},
	}
	c.Cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	report.SetCondition(c.Child, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason, "")
	for _, apply := range change {
		apply(c)
	}
	return c
}

func notReady(reason string) func(*Cluster) {
	return func(c *Cluster) { report.SetNotReady(c.Child, reason, "why "+reason) }
}

var (
	waiting = func(c *Cluster) {
		c.Cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{}
		c.Child = nil
	}
	awaited     = func(c *Cluster) { c.Cluster, c.Awaited = &clusterv1.Cluster{}, true }
	paused      = func(c *Cluster) { c.Cluster.Spec.Paused = ptr.To(true) }
	unselected  = func(c *Cluster) { c.Selected = false }
	gone        = func(c *Cluster) { c.Selected, c.Cluster = false, nil }
	deleting    = func(c *Cluster) { c.Cluster.DeletionTimestamp = &metav1.Time{Time: controllertest.Noon} }
	unreachable = func(c *Cluster) { report.Unreachable(c.Child, "no answer") }
	unrendered  = func(c *Cluster) { c.Err = errors.New("line 3: no key") }
	created     = func(c *Cluster) { c.Step.Action = rollout.ActionCreate; c.Child = &addonsv1.HelmOpRelease{} }
	updated     = func(c *Cluster) { c.Step.Action = rollout.ActionUpdate }
	blocked     = func(c *Cluster) { c.Blocked = "HelmOp cni is not Ready" }
	untold      = func(c *Cluster) { c.Step.Assigned = false }
	unobserved  = func(c *Cluster) { c.Child.Generation = 2; c.Child.Status.ObservedGeneration = 2 }
)

// scopeOf returns a pass over Clusters with the desired HelmOp revision 1.
func scopeOf(clusters ...*Cluster) *Pass {
	return &Pass{
		HelmOp: &addonsv1.HelmOp{}, Artifact: &addonsv1.ResolvedArtifact{}, Clusters: valuesOf(clusters),
		DesiredNumber: 1,
		Revisions:     []*addonsv1.HelmOpRevision{{Spec: addonsv1.HelmOpRevisionSpec{Number: 1}}},
	}
}

// valuesOf returns the Clusters that pointers refer to.
func valuesOf(clusters []*Cluster) []Cluster {
	values := make([]Cluster, 0, len(clusters))
	for _, c := range clusters {
		values = append(values, *c)
	}
	return values
}

// TestClustersBeingMoved checks which Clusters with the annotation of clusterctl move are reported.
func TestClustersBeingMoved(t *testing.T) {
	t.Parallel()
	marked := func(namespace, name string) func(*Cluster) {
		return func(c *Cluster) {
			c.Cluster.Namespace, c.Cluster.Name = namespace, name
			c.Cluster.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		}
	}
	p := scopeOf(fleetCluster("two", marked("fleet", "two")), fleetCluster("plain"), fleetCluster("gone", gone),
		fleetCluster("one", marked("fleet", "one"), unselected), fleetCluster("else/one", marked("else", "other")),
		fleetCluster("shard", marked("fleet", "shard"), func(c *Cluster) { c.OtherShard = "another shard" }))
	p.HelmOp.Namespace = "fleet"
	if got := Of(p).BeingMoved; !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q", got)
	}
	if got := Of(scopeOf(fleetCluster("plain"))).BeingMoved; got != nil {
		t.Errorf("got %q", got)
	}
}

func TestPhaseOf(t *testing.T) {
	tests := map[string]struct {
		cluster     *Cluster
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
		"has another revision": {fleetCluster("a", func(c *Cluster) { c.Child.Spec.Rollout.Revision = 3 }),
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

func TestPhaseOfNothingResolved(t *testing.T) {
	if phase, failure := phaseOf(fleetCluster("a"), 0); phase != phaseProgressing || failure != nil {
		t.Errorf("what runs while nothing is resolved is %s, %v", phase, failure)
	}
}

func TestSummarize(t *testing.T) {
	s := summarize(scopeOf([]*Cluster{
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
	var clusters []*Cluster
	for i := range 500 {
		clusters = append(clusters, fleetCluster(fmt.Sprintf("c%03d", 499-i), func(c *Cluster) {
			c.Err = errors.New(strings.Repeat("ä", 5000))
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

func BenchmarkSummarize(b *testing.B) {
	clusters := make([]*Cluster, 10_000)
	for i := range clusters {
		clusters[i] = fleetCluster(fmt.Sprintf("c%05d", i))
	}
	p := scopeOf(clusters...)
	b.ReportAllocs()
	for b.Loop() {
		summarize(p)
	}
}
