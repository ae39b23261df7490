// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

const (
	// handOvers is how often the release changes its owner. The environment variable HELMOP_HANDOVERS overrides the
	// number.
	handOvers = 8
	// handOverTime is the timeout for one change.
	handOverTime = 30 * time.Second
)

// TestReleaseMovesBetweenHelmOps moves a release from one HelmOp to another one and back with the labels of its
// Cluster: both labels at the same time, or one after the other. After each change, the release exists with its objects
// and is owned by the right HelmOp.
func TestReleaseMovesBetweenHelmOps(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	take := true
	helmOps := map[string]*addonsv1.HelmOp{}
	for _, name := range []string{"former", "next"} {
		helmOps[name] = s.newHelmOp(name, func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}
			h.Spec.Release.Name = "hello"
			h.Spec.Values = helloValues(map[string]any{"greeting": name})
			h.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: &take}
			// Drift detection also watches the records of the release, so that the previous owner finds the change at once.
			h.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
		})
		s.create(helmOps[name])
	}
	rounds := handOvers
	if given, err := strconv.Atoi(os.Getenv("HELMOP_HANDOVERS")); err == nil {
		rounds = given
	}
	from, to := "next", "former"
	s.label("one", to, "yes")
	w.eventuallyHandedOver(helmOps[to], helmOps[from])
	longest := time.Duration(0)
	for round := range rounds {
		from, to = to, from
		began := time.Now()
		between := rand.IntN(8)
		switch round % 3 {
		case 0:
			s.label("one", from, "")
			s.requests(between)
			s.label("one", to, "yes")
		case 1:
			s.label("one", to, "yes")
			s.requests(between)
			s.label("one", from, "")
		default:
			s.labels("one", map[string]string{from: "", to: "yes"})
		}
		w.eventuallyHandedOver(helmOps[to], helmOps[from])
		longest = max(longest, time.Since(began))
		if longest > handOverTime {
			t.Fatalf("round %d, labels %d requests apart, took %s", round, between, longest)
		}
	}
	t.Logf("%d times, at most %s", rounds, longest)
	w.expectUntouched()
	w.eventuallyHandedOver(helmOps[to], helmOps[from])

	// If both HelmOps select the Cluster, the later HelmOp takes over the release. The first HelmOp does not take over the
	// release again.
	s.label("one", from, "yes")
	s.child(helmOps[to], "one", childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
		addonsv1.ReleaseConflictReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(toJSON(child.Status.Conditions)).To(gomega.ContainSubstring(s.namespace + "." + from))
		})
	s.child(helmOps[from], "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	w.expectUntouched()
	w.eventuallyHello(releaseNamespace, "hello", map[string]string{"greeting": from})
}

// requests sends n requests, to vary the time between two label changes.
func (s *scenario) requests(n int) {
	s.Helper()
	for range n {
		s.cluster("one")
	}
}

// eventuallyHandedOver waits until one HelmOp owns the release in its desired state, and the other HelmOp has no
// HelmOpRelease.
func (w *workload) eventuallyHandedOver(to, from *addonsv1.HelmOp) {
	s := w.scenario
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		child := s.children(ctx, g, to)[w.name]
		g.Expect(child).NotTo(gomega.BeNil(), "the HelmOpRelease of %s", to.Name)
		expectCondition(g, child, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
		g.Expect(s.children(ctx, g, from)).To(gomega.BeEmpty(), "HelmOpReleases of %s", from.Name)
		revisions, err := w.revisions(ctx, releaseNamespace, "hello")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		deployed := 0
		for _, r := range revisions {
			if r.Status == "deployed" {
				deployed++
				g.Expect(r.Labels).To(gomega.HaveKeyWithValue("addons.cluster.x-k8s.io/helmop", s.namespace+"."+to.Name))
			}
		}
		g.Expect(deployed).To(gomega.Equal(1), "%v", summaries(revisions))
		data, err := w.hello(ctx, releaseNamespace, "hello")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.HaveKeyWithValue("greeting", to.Name))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}
