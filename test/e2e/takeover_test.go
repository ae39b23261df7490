// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestTakeover has two HelmOps for one release of one Cluster, both with takeOwnership. One owns the release at the
// end, and the condition of the other one names the owner.
func TestTakeover(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	// HelmOp does not watch these releases, so that only the new owner can report the takeover.
	s.part("of a release that is not watched", func(s *scenario) {
		s.takeOver(s.contender("first", "quiet"), s.contender("second", "quiet"))
	})
	s.part("of a release whose drift both correct", func(s *scenario) {
		corrects := func(h *addonsv1.HelmOp) {
			h.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}
		}
		s.takeOver(s.contender("here", "loud", corrects), s.contender("there", "loud", corrects))
		revisions := func(ctx context.Context) int {
			found, err := w.revisions(ctx, releaseNamespace, "loud")
			s.must(err)
			return len(found)
		}
		s.Expect(revisions(s.Context())).To(gomega.Equal(2), "revisions: one by each HelmOp")
		s.Consistently(revisions).WithContext(s.Context()).Should(gomega.Equal(2), "revisions: one by each HelmOp")
	})
}

// contender returns a HelmOp that takes over a release of another HelmOp.
func (s *scenario) contender(name, release string, change ...func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	take := true
	return s.newHelmOp(name, append(change, forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Release.Name = release
		h.Spec.Values = helloValues(map[string]any{"greeting": name})
		h.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: &take}
	})...)
}

// takeOver creates a HelmOp and, when its release exists, another HelmOp for the same release. It waits until the
// condition of the first one names the owner.
func (s *scenario) takeOver(loser, winner *addonsv1.HelmOp) {
	s.Helper()
	s.create(loser)
	s.child(loser, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	s.create(winner)
	s.child(winner, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	began := time.Now()
	child := s.child(loser, "one",
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleaseConflictReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(toJSON(child.Status.Conditions)).To(gomega.ContainSubstring(s.namespace + "." + winner.Name))
		})
	s.Logf("%s reports the takeover %s after its successor was ready", loser.Name, time.Since(began))
	s.eventuallyEvent(child, addonsv1.ReleaseConflictReason)
}

// TestReleasesReportUnreachableCluster stops an API server while HelmOp has nothing to do in its Cluster. The releases
// become not Ready, and Ready again when the API server is back.
func TestReleasesReportUnreachableCluster(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	helmOp := s.newHelmOp("idle", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(1))
	s.must(w.server.StopAPIServer(s.Context()))
	began := time.Now()
	s.child(helmOp, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse,
		addonsv1.ClusterUnreachableReason),
		childCondition(addonsv1.ClusterReachableCondition, metav1.ConditionFalse, addonsv1.ClusterUnreachableReason))
	s.Logf("noticed %s after the API server had stopped", time.Since(began))
	s.must(w.server.StartAPIServer(s.Context()))
	s.child(helmOp, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
}
