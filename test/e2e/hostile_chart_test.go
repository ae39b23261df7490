// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// hostileSchema returns a schema that takes 2^40 validations.
func hostileSchema() string {
	text := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range 40 {
		text += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return text + `"d40":true}}`
}

// hostileKustomization returns a kustomization that writes a label of 1 MB into 1,000 fields.
func hostileKustomization() string {
	text := "configMapGenerator: [{name: a, literals: [a=b]}]\nlabels:\n- pairs: {l: " + strings.Repeat("x", 1_000_000) +
		"}\n  fields:\n"
	for i := range 1000 {
		text += fmt.Sprintf("  - {path: f%d, create: true}\n", i)
	}
	return text
}

// TestHostileChart has a tenant with charts and a kustomization that need more memory and time than the limits. The
// manager survives, each release names the template and the limit that it exceeded, and another tenant's release is
// installed and upgraded meanwhile.
func TestHostileChart(t *testing.T) {
	s := newScenario(t)
	other := newScenarioIn(t, s.env)
	s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})
	two := other.clusters(testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})[0]
	leader := s.leader()
	neighbour := newNeighbour(two)
	charts := map[string]struct {
		files map[string]string
		text  string
	}{
		"memory": {map[string]string{"templates/bad.yaml": `{{ repeat 68719476736 "x" | len }}`},
			`of memory at template "memory/templates/bad.yaml"`},
		"list": {map[string]string{"templates/bad.yaml": `{{ range until 2000000000 }}{{ end }}`},
			`of memory at template "list/templates/bad.yaml"`},
		"loops": {map[string]string{"templates/bad.yaml": `{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}`},
			`of CPU time at template "loops/templates/bad.yaml"`},
		"schema": {map[string]string{"values.schema.json": hostileSchema()}, "of CPU time at values.schema.json"},
	}
	hostile := map[string]*addonsv1.HelmOp{}
	for name, chart := range charts {
		files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"}
		for file, text := range chart.files {
			files[file] = text
		}
		_, err := s.env.Registry.PushChart(s.Context(), "hostile/"+name, "1.0.0", registry.ChartFiles(files))
		s.must(err)
		hostile[name] = s.newHelmOp(name, forAll, s.from("hostile/"+name, addonsv1.ArtifactReference{Tag: "1.0.0"}),
			func(h *addonsv1.HelmOp) {
				h.Spec.Values = nil
			})
		s.create(hostile[name])
	}
	s.pushArtifact("hostile/kustomization", "1.0.0",
		fluxArtifact(s, map[string]string{"kustomization.yaml": hostileKustomization()}))
	kustomization := s.newHelmOp("kustomization", forAll,
		s.from("hostile/kustomization", addonsv1.ArtifactReference{Tag: "1.0.0"}),
		func(h *addonsv1.HelmOp) { h.Spec.Values = nil })
	s.create(kustomization)

	for range 3 {
		neighbour.expectServed(t)
	}

	for name, helmOp := range hostile {
		s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Failures).To(gomega.BeNumerically(">", 0), "%s: a stopped try counts as a failure", name)
			g.Expect(child.Status.LastError).To(gomega.ContainSubstring(charts[name].text), name)
		})
		s.eventuallyEvent(helmOp, addonsv1.RenderLimitExceededReason)
	}
	s.child(hostile["memory"], "one",
		childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RenderLimitExceededReason))
	s.eventually(kustomization, failure("one", addonsv1.RenderLimitExceededReason,
		`building the kustomization in "deploy" was stopped`, "raise --render-"))
	s.Expect(s.leader()).To(gomega.Equal(leader), "the first manager still runs")
	neighbour.expectUntouched(t)
}
