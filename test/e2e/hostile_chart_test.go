// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/hostile"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// largeValues are values of 500 kB, with a template of values that would run for hours without limits.
func largeValues(h *addonsv1.HelmOp) {
	h.Spec.Values = &apiextensionsv1.JSON{Raw: []byte(`{"large":"` + strings.Repeat("x", 500_000) + `"}`)}
	h.Spec.ValuesTemplate = strings.Repeat("{{ range until 30000 }}", 3) + strings.Repeat("{{ end }}", 3)
}

// TestHostileChart has a tenant with charts, values and a kustomization that need more memory and time than the limits.
// The manager survives, each release names the place and the limit that it exceeded, and another tenant's release is
// installed and upgraded meanwhile. The manager's memory stays bounded.
func TestHostileChart(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{ManagerArgs: []string{"--memory-limit=" + memoryLimit}})
	s, other := newScenarioIn(t, env), newScenarioIn(t, env)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	two := other.clusters(testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})[0]
	neighbour := newNeighbour(two)
	memory := s.followMemory()
	helmOps := map[string]*addonsv1.HelmOp{}
	for _, chart := range hostile.Charts() {
		_, err := s.env.Registry.PushChart(s.Context(), "hostile/"+chart.Name, hostile.Version, chart.Files())
		s.must(err)
		helmOps[chart.Name] = s.newHelmOp(chart.Name, forAll,
			s.from("hostile/"+chart.Name, addonsv1.ArtifactReference{Tag: hostile.Version}),
			func(h *addonsv1.HelmOp) { h.Spec.Values = nil })
		s.create(helmOps[chart.Name])
	}
	artifact, err := hostile.Kustomization()
	s.must(err)
	s.pushArtifact("hostile/kustomization", hostile.Version, artifact)
	kustomization := s.newHelmOp("kustomization", forAll,
		s.from("hostile/kustomization", addonsv1.ArtifactReference{Tag: hostile.Version}),
		func(h *addonsv1.HelmOp) { h.Spec.Values = nil })
	s.create(kustomization)
	values := s.newHelmOp("large-values", forAll, largeValues)
	s.create(values)
	// The child process also validates large values.
	validated := s.newHelmOp("validated", forAll,
		s.from("hostile/schema", addonsv1.ArtifactReference{Tag: hostile.Version}), largeValues,
		func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate = "" })
	s.create(validated)

	neighbour.expectServed(t)
	for _, chart := range hostile.Charts() {
		s.child(helmOps[chart.Name], "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			// A chart that is invalid is no failed try.
			if chart.Reason == addonsv1.RenderLimitExceededReason {
				g.Expect(child.Status.Failures).To(gomega.BeNumerically(">", 0), "%s: a stopped try counts", chart.Name)
			}
		})
		// While the next try runs, the status has another last error.
		s.eventuallyEvent(helmOps[chart.Name], chart.Reason, chart.Limit)
		if chart.Name == "memory" {
			s.child(helmOps[chart.Name], "one",
				childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RenderLimitExceededReason))
		}
		// Each retry of a hostile release would take up to two seconds of CPU time from the others and from other tests.
		s.remove(helmOps[chart.Name])
	}
	s.eventually(kustomization, failure("one", addonsv1.RenderLimitExceededReason,
		`building the kustomization in "deploy" was stopped`, "raise --render-"))
	s.eventually(values, failure("one", addonsv1.TemplateFailedReason, "spec.valuesTemplate line 1",
		"takes too much work to render"))
	s.child(validated, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Status.Failures).To(gomega.BeNumerically(">", 0), "a stopped try counts")
	})
	s.eventuallyEvent(validated, addonsv1.RenderLimitExceededReason, "values.schema.json")

	for _, helmOp := range []*addonsv1.HelmOp{kustomization, values, validated} {
		s.remove(helmOp)
	}
	// Each action on one of these keeps its memory until its timeout. There is not enough for more than two, so the third
	// one waits. Some of the charts above would wait, too, so they come first.
	_, err = s.env.Registry.PushChart(s.Context(), "hostile/large", hostile.Version, hostile.Large().Files())
	s.must(err)
	for i := range 3 {
		if i == 2 {
			s.Eventually(func(g gomega.Gomega) {
				hooks := &corev1.PodList{}
				g.Expect(one.List(s.Context(), hooks, client.InNamespace(releaseNamespace))).To(gomega.Succeed())
				g.Expect(hooks.Items).To(gomega.HaveLen(2), "the actions that have the memory")
			}).Should(gomega.Succeed())
		}
		s.create(s.newHelmOp(fmt.Sprintf("large-%d", i), forAll,
			s.from("hostile/large", addonsv1.ArtifactReference{Tag: hostile.Version}),
			func(h *addonsv1.HelmOp) {
				h.Spec.Values = nil
				h.Spec.Install = &addonsv1.InstallOptions{Timeout: &metav1.Duration{Duration: 10 * time.Minute}}
			}))
	}
	for range 2 {
		neighbour.expectServed(t)
	}
	s.Eventually(func(g gomega.Gomega) {
		list := &addonsv1.HelmOpReleaseList{}
		g.Expect(s.client.List(s.Context(), list, client.InNamespace(s.namespace))).To(gomega.Succeed())
		g.Expect(slices.ContainsFunc(list.Items, func(child addonsv1.HelmOpRelease) bool {
			message := conditions.GetMessage(&child, addonsv1.ReleasedCondition)
			return strings.Contains(message, "no memory is free for the release") && child.Status.Failures == 0
		})).To(gomega.BeTrue(), "a large release waits for the memory of the others")
	}).Should(gomega.Succeed())
	memory.expectBounded(s)
	neighbour.expectUntouched(t)
}
