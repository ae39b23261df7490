// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/publiccharts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// unsupported are charts that cannot be installed on the API servers of the test bed, with the reason.
var unsupported = map[string]string{
	"cloud-provider-azure": "it has images for versions of Kubernetes up to 1.36 only",
}

// publicChart is a chart of one or more examples.
type publicChart struct {
	name, folder string
	release      addonsv1.ReleaseTemplate
	examples     []publicExample

	// helmOps are the names of the HelmOps in the examples. dependsOn are the names of their dependencies.
	helmOps, dependsOn []string

	helmOp    *addonsv1.HelmOp
	revisions []string
}

// publicExample is what an example passes to a chart.
type publicExample struct {
	name, values string
	postRender   *addonsv1.PostRender
}

// TestPublicCharts installs the charts of the examples with the values of their golden files, if this machine has the
// charts: see package publiccharts. If several examples use one chart, each of them is an upgrade of the one before,
// because the API servers of the test bed never finish the deletion of a namespace. The test also installs all other
// charts of the folders, with their default values. The tests of other examples are skipped, with the reason.
func TestPublicCharts(t *testing.T) {
	charts := publicCharts(t)
	if len(charts) == 0 {
		t.Skipf("there are no public charts: set %s or %s", publiccharts.FoldersEnv, publiccharts.ModulesEnv)
	}
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	var installed []*publicChart
	for i, chart := range charts {
		s.Run(chart.name, func(t *testing.T) { s.in(t).installPublicChart(one, chart) })
		installed = append(installed, chart)
		// The add-ons of different clouds have objects of the same names, so a chart stays only for later charts.
		for _, chart := range slices.Backward(slices.Clone(installed)) {
			if slices.ContainsFunc(charts[i+1:], func(later *publicChart) bool { return later.needs(chart) }) {
				continue
			}
			s.Run("uninstalls "+chart.name, func(t *testing.T) { s.in(t).uninstallPublicChart(one, chart) })
			installed = slices.DeleteFunc(installed, func(other *publicChart) bool { return other == chart })
		}
	}
}

func (s *scenario) uninstallPublicChart(one *workload, chart *publicChart) {
	s.remove(chart.helmOp)
	s.eventuallyGone(chart.helmOp)
	one.in(s).eventuallyRevisions(chart.release.Namespace, chart.release.Name)
}

// installPublicChart installs a chart with the values of its first example, and upgrades it with the values of the
// other examples.
func (s *scenario) installPublicChart(one *workload, chart *publicChart) {
	withoutHooks := true // The test bed runs no pods, so no hook would end.
	chart.helmOp = s.newHelmOp(strings.ReplaceAll(chart.name, ".", "-"), forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("public/"+chart.name, addonsv1.ArtifactReference{Tag: "latest"})
		h.Spec.Release, h.Spec.Values = chart.release, nil
		h.Spec.Install = &addonsv1.InstallOptions{DisableHooks: &withoutHooks}
		h.Spec.Upgrade = &addonsv1.UpgradeOptions{DisableHooks: &withoutHooks}
		h.Spec.Uninstall = &addonsv1.UninstallOptions{DisableHooks: &withoutHooks}
	})
	_, err := s.env.Registry.PushChart(s.Context(), "public/"+chart.name, "latest", registry.ChartDir(chart.folder))
	s.must(err)
	for i, example := range chart.examples {
		s.step(example.name, func(s *scenario) {
			values := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: example.name},
				Data:       map[string]string{"values.yaml": example.values},
			}
			s.create(values)
			change := func(h *addonsv1.HelmOp) {
				h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "ConfigMap", Name: values.Name}}
				h.Spec.PostRender = example.postRender
			}
			if i == 0 {
				change(chart.helmOp)
				s.create(chart.helmOp)
			} else {
				chart.revisions[i-1] = fmt.Sprintf("%d superseded", i)
				update(s, chart.helmOp, change)
			}
			chart.revisions = append(chart.revisions, fmt.Sprintf("%d deployed", i+1))
			one.in(s).eventuallyRevisions(chart.release.Namespace, chart.release.Name, chart.revisions...)
			s.eventually(chart.helmOp, ready(1))
		})
	}
}

// publicCharts returns the charts of the examples that this machine has, and the other charts of the folders. Each
// chart comes after its dependencies.
func publicCharts(t *testing.T) []*publicChart {
	t.Helper()
	goldens, err := filepath.Glob(filepath.Join("..", "..", "examples", "testdata", "golden", "*.yaml"))
	if err != nil || len(goldens) == 0 {
		t.Fatalf("there are no golden files of the examples: %v", err)
	}
	ofExamples := map[string]*publicChart{}
	var charts []*publicChart
	for _, golden := range goldens {
		raw, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		var rendered struct {
			HelmOp     string               `json:"helmOp"`
			DependsOn  []string             `json:"dependsOn"`
			Chart      string               `json:"chart"`
			Release    string               `json:"release"`
			Namespace  string               `json:"namespace"`
			Values     map[string]any       `json:"values"`
			PostRender *addonsv1.PostRender `json:"postRender"`
		}
		if err := yaml.Unmarshal(raw, &rendered); err != nil {
			t.Fatal(err)
		}
		values, err := yaml.Marshal(rendered.Values)
		if err != nil {
			t.Fatal(err)
		}
		example := publicExample{strings.TrimSuffix(filepath.Base(golden), ".yaml"), string(values), rendered.PostRender}
		name := path.Base(rendered.Chart)
		release := addonsv1.ReleaseTemplate{Name: rendered.Release, Namespace: rendered.Namespace}
		if known := ofExamples[name]; known != nil {
			if known.release != release {
				t.Errorf("%s has the release %v, and other examples of its chart have %v", golden, release, known.release)
			}
			known.add(example, rendered.HelmOp, rendered.DependsOn)
			continue
		}
		folder, err := publiccharts.Find(t.Context(), name, t.TempDir())
		if err == nil {
			err = publiccharts.Complete(folder)
		}
		if reason := unsupported[name]; err == nil && reason != "" {
			err = fmt.Errorf("%w in a usable form: %s: %s", publiccharts.ErrNotHere, name, reason)
		}
		if errors.Is(err, publiccharts.ErrNotHere) {
			t.Run(example.name, func(t *testing.T) { t.Skip(err) })
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		ofExamples[name] = &publicChart{name: name, folder: folder, release: release}
		ofExamples[name].add(example, rendered.HelmOp, rendered.DependsOn)
		charts = append(charts, ofExamples[name])
	}
	for _, folder := range publiccharts.Folders() {
		name, err := publiccharts.NameOf(folder)
		if err != nil {
			t.Fatal(err)
		}
		if ofExamples[name] == nil {
			charts = append(charts, &publicChart{name: name, folder: folder,
				release:  addonsv1.ReleaseTemplate{Name: strings.ReplaceAll(name, ".", "-"), Namespace: "kube-system"},
				examples: []publicExample{{name: strings.ReplaceAll(name, ".", "-"), values: "{}"}}})
		}
	}
	return inOrder(charts)
}

// inOrder returns the charts, each after its dependencies.
func inOrder(charts []*publicChart) []*publicChart {
	var ordered []*publicChart
	var visit func(*publicChart)
	visited := map[*publicChart]bool{}
	visit = func(chart *publicChart) {
		if visited[chart] {
			return
		}
		visited[chart] = true
		for _, other := range charts {
			if chart.needs(other) {
				visit(other)
			}
		}
		ordered = append(ordered, chart)
	}
	for _, chart := range charts {
		visit(chart)
	}
	return ordered
}

// needs reports whether an example of the chart depends on one of the other chart.
func (c *publicChart) needs(other *publicChart) bool {
	return slices.ContainsFunc(other.helmOps, func(name string) bool { return slices.Contains(c.dependsOn, name) })
}

// add adds an example, unless another one passes the same to the chart: that would be no upgrade.
func (c *publicChart) add(example publicExample, helmOp string, dependsOn []string) {
	c.helmOps, c.dependsOn = append(c.helmOps, helmOp), append(c.dependsOn, dependsOn...)
	if !slices.ContainsFunc(c.examples, func(known publicExample) bool {
		return known.values == example.values && reflect.DeepEqual(known.postRender, example.postRender)
	}) {
		c.examples = append(c.examples, example)
	}
}
