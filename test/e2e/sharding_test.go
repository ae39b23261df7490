// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// shardB is the second shard. The first one serves objects without a shard label.
const shardB = "b"

// sharding has two shards of two managers each, with a HelmOp and a Cluster for each shard.
type sharding struct {
	// plain and b are releases of the chart slow: plain without a shard in Cluster one, b of shard b in Cluster two.
	plain, b *slowRelease
	// managers are the managers of shard b.
	managers []*environment.Manager
}

// TestSharding divides the HelmOps and Clusters by shard, and moves them from one shard to another.
func TestSharding(t *testing.T) {
	begin(t)
	// A manager reports that a shard has no manager only after twice the duration of its own lease.
	env := ownEnvironment(t, environment.Options{ManagerArgs: shortLease, Managers: 2})
	s := newScenarioIn(t, env)
	f := &sharding{}
	s.step("reports a shard without a manager", func(s *scenario) { f.unserved(s) })
	s.step("each shard serves its own HelmOps", func(s *scenario) { f.served(s) })
	s.step("another manager of the shard takes over from a killed leader", func(s *scenario) { f.failover(s) })
	s.step("moves a HelmOp to another shard, then its Cluster", func(s *scenario) { f.helmOpFirst(s) })
	s.step("moves a Cluster to another shard, then its HelmOp, during an action",
		func(s *scenario) { f.midAction(s) })
	s.step("keeps the release in a Cluster of another shard", func(s *scenario) { f.keeps(s) })
}

// in returns the same releases for a step of the scenario.
func (f *sharding) in(s *scenario) *sharding {
	slow := func(k *slowRelease) *slowRelease { return &slowRelease{workload: k.workload.in(s), helmOp: k.helmOp} }
	return &sharding{plain: slow(f.plain), b: slow(f.b), managers: f.managers}
}

func (f *sharding) unserved(s *scenario) {
	workloads := s.clusters(testbed.ClusterOptions{Name: "one"}, testbed.ClusterOptions{Name: "two"})
	s.label("one", addonsLabel, "plain")
	s.label("two", addonsLabel, shardB)
	s.label("two", addonsv1.ShardLabel, shardB)
	slow := func(w *workload, name string, change func(*addonsv1.HelmOp)) *slowRelease {
		k := &slowRelease{workload: w, helmOp: s.newHelmOp(name, change, func(h *addonsv1.HelmOp) {
			h.Spec.Source = s.env.Source("charts/"+environment.ChartSlow, addonsv1.ArtifactReference{Tag: "1.0.0"})
			h.Spec.Release.Namespace = slowNamespace
			h.Spec.Values = slowValues("one")
		})}
		s.create(k.helmOp)
		return k
	}
	f.plain = slow(workloads[0], "plain", func(*addonsv1.HelmOp) {})
	f.b = slow(workloads[1], shardB,
		func(h *addonsv1.HelmOp) { h.Labels = map[string]string{addonsv1.ShardLabel: shardB} })
	f.plain.eventuallyReleased(f.plain.helmOp, slowNamespace, "plain", 1)
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		current := &addonsv1.HelmOp{}
		g.Expect(s.client.Get(ctx, s.key(shardB), current)).To(gomega.Succeed())
		expectCondition(g, current, addonsv1.ReadyCondition, metav1.ConditionUnknown, addonsv1.ShardNotServedReason)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	f.b.expectNothing(slowNamespace, shardB)
}

func (f *sharding) served(s *scenario) {
	f.managers = nil
	for range 2 {
		manager, err := s.env.StartManager(s.Context(), "--shard="+shardB)
		s.must(err)
		f.managers = append(f.managers, manager)
	}
	f = f.in(s)
	child := f.b.eventuallyReleased(f.b.helmOp, slowNamespace, shardB, 1)
	s.Expect(child.Labels).To(gomega.HaveKeyWithValue(addonsv1.ShardLabel, shardB))
	s.eventually(f.b.helmOp, ready(1))
	s.eventually(f.plain.helmOp, ready(1))
	s.allowURL("reader", "/metrics")
	token := s.serviceAccount("reader")
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(releasesKnownTo(s, f.managers[0], token)).To(gomega.Equal([]string{shardB}))
		g.Expect(releasesKnownTo(s, s.env.Managers()[0], token)).To(gomega.Equal([]string{"plain"}))
	}).Should(gomega.Succeed())
}

// releasesKnownTo returns the HelmOps whose releases are in a manager's metrics.
func releasesKnownTo(s *scenario, manager *environment.Manager, token string) []string {
	s.Helper()
	_, body := s.get("https://"+manager.DiagnosticsAddress+"/metrics", token)
	var helmOps []string
	for line := range strings.Lines(body) {
		if _, rest, ok := strings.Cut(line, "helmop_releases{helmop=\""); ok {
			name, _, _ := strings.Cut(rest, "\"")
			helmOps = append(helmOps, name)
		}
	}
	return helmOps
}

func (f *sharding) failover(s *scenario) {
	f = f.in(s)
	s.requireApproval(f.b.helmOp)
	f.b.setText("two")
	digest := s.awaitsApproval(f.b.helmOp, 2, 1)
	s.must(f.managers[0].Kill())
	f.b.eventuallyRevisions(slowNamespace, shardB, "1 deployed")
	s.approve(f.b.helmOp, digest)
	f.b.eventuallyReleased(f.b.helmOp, slowNamespace, shardB, 2)
	f.b.expectText("two")
	s.eventually(f.b.helmOp, ready(1))
	f.plain.eventuallyRevisions(slowNamespace, "plain", "1 deployed")
	update(s, f.b.helmOp, func(h *addonsv1.HelmOp) { h.Spec.Rollout = nil })
}

// enter pauses the HelmOp of shard b until it is in another shard, and the managers have moved its releases.
func (f *sharding) enter(s *scenario, shard string) {
	s.Helper()
	update(s, f.b.helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Paused, h.Labels = true, nil
		if shard != "" {
			h.Labels = map[string]string{addonsv1.ShardLabel: shard}
		}
	})
	s.eventually(f.b.helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Shard).To(gomega.HaveValue(gomega.Equal(shard)))
	})
	update(s, f.b.helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = false })
}

// helmOpFirst removes the HelmOp of shard b from the shard, then the Cluster.
func (f *sharding) helmOpFirst(s *scenario) {
	f = f.in(s)
	before, err := f.b.storage(s.Context())
	s.must(err)
	child := s.child(f.b.helmOp, "two")
	revisions := f.revisions(s)

	update(s, f.b.helmOp, func(h *addonsv1.HelmOp) { delete(h.Labels, addonsv1.ShardLabel) })
	s.eventually(f.b.helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ShardChangedReason))
	s.Expect(s.child(f.b.helmOp, "two").Labels).To(gomega.HaveKeyWithValue(addonsv1.ShardLabel, shardB))
	f.b.expectUntouched()

	f.enter(s, "")
	s.eventually(f.b.helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.OtherShardReason))
	held := s.child(f.b.helmOp, "two",
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.OtherShardReason))
	s.Expect(held.Labels).NotTo(gomega.HaveKey(addonsv1.ShardLabel))
	f.b.expectUntouched()

	s.label("two", addonsv1.ShardLabel, "")
	s.eventually(f.b.helmOp, ready(1))
	after, err := f.b.storage(s.Context())
	s.must(err)
	s.Expect(after).To(gomega.Equal(before), "Helm's storage")
	s.Expect(s.child(f.b.helmOp, "two").UID).To(gomega.Equal(child.UID))
	s.Expect(f.revisions(s)).To(gomega.Equal(revisions), "revisions of the HelmOp")
}

// revisions returns the names of the existing HelmOpRevisions.
func (f *sharding) revisions(s *scenario) []string {
	s.Helper()
	list := &addonsv1.HelmOpRevisionList{}
	s.must(s.client.List(s.Context(), list))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// midAction moves Cluster and HelmOp to shard b while the manager without a shard upgrades the release.
func (f *sharding) midAction(s *scenario) {
	f = f.in(s)
	f.b.setText("three", "pre-upgrade")
	held := f.b.eventuallyHeld("1 superseded", "2 deployed", "3 pending-upgrade")
	s.label("two", addonsv1.ShardLabel, shardB)
	f.enter(s, shardB)
	s.child(f.b.helmOp, "two", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Labels).To(gomega.HaveKeyWithValue(addonsv1.ShardLabel, shardB))
	}, childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasePendingReason))
	f.b.expectUntouched()
	f.b.complete(held)
	f.b.eventuallyReleased(f.b.helmOp, slowNamespace, shardB, 3)
	f.b.eventuallyRevisions(slowNamespace, shardB, "1 superseded", "2 superseded", "3 deployed")
	f.b.expectText("three")
	s.eventually(f.b.helmOp, ready(1))
	f.b.expectUntouched()
}

// keeps deletes the HelmOp of a Cluster that was moved to a shard without a manager.
func (f *sharding) keeps(s *scenario) {
	f = f.in(s)
	s.label("two", addonsv1.ShardLabel, "unserved")
	s.child(f.b.helmOp, "two", childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.OtherShardReason))
	s.remove(f.b.helmOp)
	f.b.expectUntouched()
	f.b.expectText("three")
	s.label("two", addonsv1.ShardLabel, shardB)
	s.eventuallyGone(f.b.helmOp)
	f.b.eventuallyRevisions(slowNamespace, shardB)
}
