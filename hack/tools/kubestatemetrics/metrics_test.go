// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kubestatemetrics

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-state-metrics/v2/pkg/customresourcestate"
	"k8s.io/kube-state-metrics/v2/pkg/metric"
)

var (
	root   = filepath.Join("..", "..", "..")
	update = flag.Bool("update", false, "write the golden file")
)

// TestMetrics compares the metrics of a HelmOp and of its HelmOpReleases, as kube-state-metrics generates them with the
// shipped configuration, with testdata/metrics.txt.
func TestMetrics(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, resource := range readResources(t) {
		// kube-state-metrics reads the types in any case.
		for i := range resource.Metrics {
			each := &resource.Metrics[i].Each
			each.Type = metric.Type(strings.ToLower(string(each.Type)))
		}
		factory, err := customresourcestate.NewCustomResourceMetrics(resource)
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range factory.MetricFamilyGenerators() {
			lines = append(lines, "# "+family.Name+": "+family.Help)
			found := 0
			for _, object := range readObjects(t, resource.GroupVersionKind.Kind) {
				for _, m := range family.Generate(object).Metrics {
					lines = append(lines, line(family.Name, m))
					found++
				}
			}
			if found == 0 {
				t.Errorf("no object has the metric %s", family.Name)
			}
		}
	}
	golden := filepath.Join("testdata", "metrics.txt")
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nTo accept it: go test . -args -update", got)
	}
}

// line returns a metric in the format of Prometheus.
func line(name string, m *metric.Metric) string {
	labels := make([]string, 0, len(m.LabelKeys))
	for i, key := range m.LabelKeys {
		// The labels with the kind of the object are the same in all metrics of a family.
		if !strings.HasPrefix(key, "customresource_") {
			labels = append(labels, fmt.Sprintf("%s=%q", key, m.LabelValues[i]))
		}
	}
	slices.Sort(labels)
	return fmt.Sprintf("%s{%s} %v", name, strings.Join(labels, ","), m.Value)
}

// readResources returns the resources of the configuration.
func readResources(t *testing.T) []customresourcestate.Resource {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "config", "kube-state-metrics", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := customresourcestate.Metrics{}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Spec.Resources) == 0 {
		t.Fatal("the configuration has no resources")
	}
	return config.Spec.Resources
}

// readObjects returns the objects of testdata/objects.yaml with a kind.
func readObjects(t *testing.T, kind string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var found []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
}
