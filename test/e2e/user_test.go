// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestUserWithKubectl does what users do with kubectl.
func TestUserWithKubectl(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{
		Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Labels: map[string]string{"selected-by": "none"},
	})[0]

	s.part("reads the state", func(s *scenario) { testPrintedColumns(s, one.in(s)) })
	s.part("changes the selector", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("selector", forAll)
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "selector", 1)
		update(s, helmOp, selecting("no-such-label"))
		s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.NoClustersSelectedReason))
		one.eventuallyRevisions(releaseNamespace, "selector")
		update(s, helmOp, selecting("selected-by"))
		one.eventuallyReleased(helmOp, releaseNamespace, "selector", 1)

		// A selector that is not valid does not unselect Clusters.
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"not a label": "x"}}
		})
		s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.InvalidSelectorReason))
		one.expectRevisionsStay("selector", "1 deployed")
	})
	s.part("waits in a pipeline", func(s *scenario) {
		helmOp := s.newHelmOp("pipeline", forAll)
		s.create(helmOp)
		waitFor := func(condition string) {
			s.Helper()
			_, err := s.env.Management.Kubectl(s.Context(), "wait", "--for=condition="+condition,
				"--timeout="+patience.String(), "--namespace", s.namespace, "helmops.addons.cluster.x-k8s.io/pipeline")
			s.must(err)
		}
		waitFor("Ready")
		waitFor("RollingOut=False")
		good := helmOp.Spec.Values
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": "{{ .No }}"}) })
		waitFor("Stalled")
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = good })
		waitFor("Ready")
		s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(conditions.Get(h, addonsv1.StalledCondition)).To(gomega.BeNil())
		})
	})
	s.part("has long names", func(s *scenario) {
		one := one.in(s)
		name := strings.Repeat("long-", 40) + "name"
		helmOp := s.newHelmOp(name, forAll, func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "long" })
		s.create(helmOp)
		one.eventuallyHello(releaseNamespace, "long", map[string]string{"cluster": "one"})
		s.eventually(helmOp, ready(1))
		s.setGreeting(helmOp, "again")
		one.eventuallyHello(releaseNamespace, "long", map[string]string{"greeting": "again"})
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
		one.eventuallyRevisions(releaseNamespace, "long")
	})
	s.part("deletes in the foreground", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("foreground", forAll)
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "foreground", 1)
		s.must(s.client.Delete(s.Context(), helmOp, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		s.eventuallyGone(helmOp)
		one.eventuallyRevisions(releaseNamespace, "foreground")
	})
}

// testPrintedColumns reads the tables that show the releases in each Cluster and their problems.
func testPrintedColumns(s *scenario, one *workload) {
	helmOp := s.newHelmOp("table", forAll)
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "table", 1)
	s.eventually(helmOp, ready(1), inPhase(1, addonsv1.RolloutPhaseComplete))
	kubectl := func(args ...string) string {
		s.Helper()
		out, err := s.env.Management.Kubectl(s.Context(), append(args, "--namespace", s.namespace)...)
		s.must(err)
		return out.Stdout
	}
	s.Expect(fieldsOf(kubectl("get", "hop", "table"))).To(gomega.HaveExactElements(
		[]string{"NAME", "READY", "REASON", "VERSION", "CLUSTERS", "UP-TO-DATE", "FAILED", "ROLLOUT", "AGE"},
		gomega.HaveExactElements("table", "True", "Ready", "1.0.0", "1", "1", "0", "Complete", gomega.Not(gomega.BeEmpty())),
	))
	s.Expect(fieldsOf(kubectl("get", "hopr", "--selector",
		addonsv1.HelmOpNameLabel+"=table"))).To(gomega.HaveExactElements(
		[]string{
			"NAME", "CLUSTER", "READY", "REASON", "RELEASE", "HELM-REVISION", "STATUS", "CHART", "VERSION", "DEPLOYED", "AGE",
		},
		gomega.HaveExactElements(gomega.HavePrefix("table-one-"), "one", "True", "Ready", "table", "1", "deployed", "hello",
			"1.0.0",
			gomega.Not(gomega.BeEmpty()), gomega.Not(gomega.BeEmpty())),
	))
	kubectl("wait", "--for=condition=Ready", "--timeout="+patience.String(), "hop/table")
	s.Expect(kubectl("get", "cluster-api")).To(gomega.ContainSubstring("helmop.addons.cluster.x-k8s.io/table"))
	explained := strings.Join(strings.Fields(kubectl("explain", "helmop.spec.source.ref.semver")), " ")
	s.Expect(explained).To(gomega.ContainSubstring("HelmOp uses the highest version in the range"))
}

// fieldsOf splits the lines of a table into their columns.
func fieldsOf(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}
