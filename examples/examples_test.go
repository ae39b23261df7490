// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestExamples renders each HelmOp for each sample Cluster that it selects and compares with the golden files.
func TestExamples(t *testing.T) {
	t.Parallel()
	clusters := sampleClusters(t)
	seen := map[string]bool{}
	for _, file := range exampleFiles(t) {
		example := readExample(t, file)
		for _, helmOp := range example.helmOps {
			selected := 0
			for _, objects := range clusters {
				if !selects(t, helmOp, objects) {
					continue
				}
				selected++
				golden := filepath.Join("testdata", "golden", fmt.Sprintf("%s-%s.yaml", helmOp.Name, nameOf(objects)))
				seen[golden] = true
				compare(t, golden, render(t, helmOp, example, objects))
			}
			if selected == 0 {
				t.Errorf("%s: HelmOp %s selects no sample Cluster", file, helmOp.Name)
			}
		}
	}
	goldens, err := filepath.Glob(filepath.Join("testdata", "golden", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, golden := range goldens {
		if !seen[golden] {
			t.Errorf("%s belongs to no example", golden)
		}
	}
}

// TestImportantValues checks values whose change could be overlooked when golden files are written again.
func TestImportantValues(t *testing.T) {
	t.Parallel()
	pool := func(cidr, encapsulation string) any {
		return map[string]any{"cidr": cidr, "encapsulation": encapsulation, "natOutgoing": "Enabled"}
	}
	for _, tc := range []struct {
		file, helmOp, cluster, path string
		want                        any
	}{
		{"calico.yaml", "calico", "alpha", "installation.calicoNetwork.ipPools",
			[]any{pool("192.168.0.0/17", "VXLANCrossSubnet"), pool("192.168.128.0/17", "VXLANCrossSubnet")}},
		{"calico.yaml", "calico", "alpha", "installation.calicoNetwork.bgp", "Disabled"},
		{"calico.yaml", "calico", "alpha", "installation.controlPlaneReplicas", int64(2)},
		{"calico.yaml", "calico", "gamma", "installation.calicoNetwork.ipPools",
			[]any{pool("fd00:10:20::/56", "VXLAN"), pool("10.20.0.0/16", "VXLANCrossSubnet")}},
		{"calico.yaml", "calico", "gamma", "installation.controlPlaneReplicas", int64(1)},
		{"cilium.yaml", "cilium", "beta-with-a-name-longer-than-cilium-takes", "k8sServiceHost", "beta.example.com"},
		{"cilium.yaml", "cilium", "beta-with-a-name-longer-than-cilium-takes", "k8sServicePort", int64(443)},
		{"cilium.yaml", "cilium", "beta-with-a-name-longer-than-cilium-takes", "kubeProxyReplacement", true},
		{"cilium.yaml", "cilium", "beta-with-a-name-longer-than-cilium-takes", "cluster.name",
			"beta-with-a-name-longer-than-cil"},
		{"cilium.yaml", "cilium", "beta-with-a-name-longer-than-cilium-takes", "ipam.operator.clusterPoolIPv4PodCIDRList",
			[]any{"10.244.0.0/16"}},
		{"cilium.yaml", "cilium", "beta-with-a-name-longer-than-cilium-takes", "ipam.operator.clusterPoolIPv6PodCIDRList",
			[]any{"fd00:10:244::/56"}},
		{"cilium.yaml", "cilium", "beta-with-a-name-longer-than-cilium-takes", "ipv6.enabled", true},
		{"openstack-cloud-controller-manager.yaml", "openstack-ccm", "alpha", "cluster.name", "alpha"},
		{"openstack-cloud-controller-manager.yaml", "openstack-ccm", "alpha", "cloudConfig.loadBalancer.subnet-id",
			"a3b0c9d8-3f5e-4c2a-9a44-1e2d3c4b5a33"},
		{"openstack-cloud-controller-manager.yaml", "openstack-ccm", "alpha", "cloudConfig.global.region", "RegionOne"},
	} {
		t.Run(strings.Join([]string{tc.helmOp, tc.cluster, tc.path}, "/"), func(t *testing.T) {
			t.Parallel()
			example := readExample(t, tc.file)
			for _, helmOp := range example.helmOps {
				for _, objects := range sampleClusters(t) {
					if helmOp.Name != tc.helmOp || nameOf(objects) != tc.cluster {
						continue
					}
					values := render(t, helmOp, example, objects).Values
					got, _, err := unstructured.NestedFieldNoCopy(values, strings.Split(tc.path, ".")...)
					if err != nil || !reflect.DeepEqual(got, tc.want) {
						t.Errorf("got %#v (%v), want %#v", got, err, tc.want)
					}
					return
				}
			}
			t.Error("no such HelmOp and Cluster")
		})
	}
}

// TestCalicoIsReadyWhenItWorks checks the health of an Installation with conditions of Calico's operator.
func TestCalicoIsReadyWhenItWorks(t *testing.T) {
	t.Parallel()
	for _, helmOp := range readExample(t, "calico.yaml").helmOps {
		if helmOp.Spec.Health == nil {
			continue
		}
		var checks []health.Check
		for _, check := range helmOp.Spec.Health.Checks {
			checks = append(checks, health.Check{
				APIVersion: check.APIVersion, Kind: check.Kind,
				InProgress: check.InProgress, Failed: check.Failed, Current: check.Current,
			})
		}
		checker, err := health.NewChecker(checks)
		if err != nil {
			t.Fatal(err)
		}
		for status, want := range map[string]health.Status{
			"":                    health.InProgress,
			"status: {mtu: 1450}": health.InProgress,
			"status: {conditions: [{type: Ready, status: 'False'}, {type: Progressing, status: 'True'}]}": health.InProgress,
			"status: {conditions: [{type: Degraded, status: 'False'}, {type: Ready, status: 'True'}]}":    health.Current,
		} {
			installation := parse(t, status, []byte("apiVersion: operator.tigera.io/v1\nkind: Installation\n"+status))
			if got, message := checker.Check(installation); got != want {
				t.Errorf("%s: %v (%s), want %v", status, got, message, want)
			}
		}
		return
	}
	t.Error("no HelmOp of the example has a health check")
}

// TestReadmeNamesEveryExample checks that the README has a link to each example.
func TestReadmeNamesEveryExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range exampleFiles(t) {
		if !bytes.Contains(readme, []byte("("+file+")")) {
			t.Errorf("README.md has no link to %s", file)
		}
	}
}

// example is the content of one file.
type example struct {
	helmOps []addonsv1.HelmOp
	values  map[string]map[string]string // "Kind name" → key → content
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	return files
}

// readExample decodes strictly: a field that the API does not have is an error.
func readExample(t *testing.T, file string) example {
	t.Helper()
	e := example{values: map[string]map[string]string{}}
	for _, document := range documents(t, file) {
		switch u := parse(t, file, document); u.GetKind() {
		case "HelmOp":
			var h addonsv1.HelmOp
			if err := yaml.UnmarshalStrict(document, &h); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			e.helmOps = append(e.helmOps, h)
		case "Secret", "ConfigMap":
			field := map[string]string{"Secret": "stringData", "ConfigMap": "data"}[u.GetKind()]
			data, _, err := unstructured.NestedStringMap(u.Object, field)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			e.values[u.GetKind()+" "+u.GetName()] = data
		default:
			t.Fatalf("%s: unexpected kind %q", file, u.GetKind())
		}
	}
	return e
}

func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, document)
	}
}

func parse(t *testing.T, file string, document []byte) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(document, u); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return u
}

// sampleClusters returns the objects of the files of testdata/clusters: a Cluster, its control plane and its
// infrastructure, in this order.
func sampleClusters(t *testing.T) []templating.Objects {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "clusters", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sample Clusters: %v", err)
	}
	var all []templating.Objects
	for _, file := range files {
		d := documents(t, file)
		if len(d) != 3 {
			t.Fatalf("%s has %d documents, want 3", file, len(d))
		}
		all = append(all, templating.Objects{
			Cluster:               parse(t, file, d[0]).Object,
			ControlPlane:          parse(t, file, d[1]).Object,
			InfrastructureCluster: parse(t, file, d[2]).Object,
		})
	}
	return all
}

func nameOf(objects templating.Objects) string {
	return (&unstructured.Unstructured{Object: objects.Cluster}).GetName()
}

func selects(t *testing.T, helmOp addonsv1.HelmOp, objects templating.Objects) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(helmOp.Spec.ClusterSelector)
	if err != nil {
		t.Fatalf("HelmOp %s: %v", helmOp.Name, err)
	}
	return selector.Matches(labels.Set((&unstructured.Unstructured{Object: objects.Cluster}).GetLabels()))
}

func render(t *testing.T, helmOp addonsv1.HelmOp, e example, objects templating.Objects) templating.Result {
	t.Helper()
	spec := templating.Spec{
		ReleaseName:      helmOp.Spec.Release.Name,
		ReleaseNamespace: helmOp.Spec.Release.Namespace,
		ValuesTemplate:   helmOp.Spec.ValuesTemplate,
		Delimiters:       templating.Delimiters(helmOp.Spec.TemplateDelimiters),
	}
	if helmOp.Spec.Values != nil {
		spec.Values = helmOp.Spec.Values.Raw
	}
	for _, from := range helmOp.Spec.ValuesFrom {
		source := templating.ValuesSource{TargetPath: from.TargetPath}
		if _, _, isTemplate := templating.Literals(from.Name, spec.Delimiters); isTemplate {
			source.Name = from.Name
		} else {
			source.Data = contentOf(t, e, from, from.Name)
		}
		spec.ValuesFrom = append(spec.ValuesFrom, source)
	}
	program, err := templating.Compile(spec)
	if err != nil {
		t.Fatalf("HelmOp %s: %v", helmOp.Name, err)
	}
	sources, err := program.ClusterSources(t.Context(), objects)
	if err != nil {
		t.Fatalf("HelmOp %s for %s: %v", helmOp.Name, nameOf(objects), err)
	}
	contents := templating.Contents{}
	for _, source := range sources {
		contents[source.SourceID] = templating.Content{Data: contentOf(t, e, helmOp.Spec.ValuesFrom[source.Index],
			source.Name)}
	}
	result, err := program.RenderWith(t.Context(), objects, contents)
	if err != nil {
		t.Fatalf("HelmOp %s for %s: %v", helmOp.Name, nameOf(objects), err)
	}
	return result
}

// contentOf returns the content of an object of the example for a reference.
func contentOf(t *testing.T, e example, from addonsv1.ValuesReference, name string) []byte {
	t.Helper()
	key := from.Key
	if key == "" {
		key = "values.yaml" // the default of the CRD
	}
	content, ok := e.values[from.Kind+" "+name][key]
	if !ok && !from.Optional {
		t.Fatalf("no %s %s with the key %s", from.Kind, name, key)
	}
	return []byte(content)
}

func compare(t *testing.T, golden string, result templating.Result) {
	t.Helper()
	got, err := yaml.Marshal(map[string]any{
		"release": result.Name, "namespace": result.Namespace, "values": result.Values,
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./examples -update", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", golden, got, want)
	}
}
