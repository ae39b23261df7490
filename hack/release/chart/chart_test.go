// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var configFolder = filepath.Join("..", "..", "..", "config")

// makeFiles makes the chart of this tree once, because it runs kustomize several times.
var makeFiles = sync.OnceValues(func() (map[string][]byte, error) {
	return Files(Options{
		Config: os.DirFS(configFolder), Version: "v1.2.3", Image: "registry.example/team/manager",
		License: []byte("the licence"),
	})
})

// chartFiles returns the files of the chart of this tree. All tests share them, so no test may change them.
func chartFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := makeFiles()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// rendered returns the objects that Helm installs, by kind and name.
func rendered(t *testing.T, namespace string, values map[string]any) (map[string]map[string]any, error) {
	t.Helper()
	var buffered []*loader.BufferedFile
	for name, data := range chartFiles(t) {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: data})
	}
	chart, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "helmop", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]map[string]any{}
	for name, text := range texts {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Fatalf("%s is not YAML: %v\n%s", name, err, document)
			}
			if object == nil {
				continue
			}
			one := unstructured.Unstructured{Object: object}
			objects[one.GetKind()+" "+one.GetName()] = object
		}
	}
	return objects, nil
}

// servedVariable matches the variable with the namespace that the manager serves, with and without a default.
var servedVariable = regexp.MustCompile(`\$\{HELMOP_WATCH_NAMESPACE(:=[^{}]*)?\}`)

// installed returns the objects that kustomize builds from a folder, with the defaults of the variables, in a
// namespace. The manager serves the namespace served, or all if served is empty. The objects have the image of the
// chart, and no Namespace.
func installed(t *testing.T, namespace, served, folder string, components ...string) map[string]map[string]any {
	t.Helper()
	built, err := build(os.DirFS(configFolder), folder, components...)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	for _, one := range built {
		if one.GetKind() == "Namespace" {
			continue
		}
		if one.GetKind() == "CustomResourceDefinition" {
			annotations := one.GetAnnotations()
			annotations[keepAnnotation] = "keep"
			one.SetAnnotations(annotations)
		}
		data, err := yaml.Marshal(one.Object)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if served != "" {
			text = servedVariable.ReplaceAllString(text, served)
		}
		text = variable.ReplaceAllString(text, "$2")
		text = strings.ReplaceAll(text, "namespace: helmop-system\n", "namespace: "+namespace+"\n")
		text = strings.ReplaceAll(text, "ghcr.io/helmop/cluster-api-helmop-controller:dev",
			"registry.example/team/manager:v1.2.3")
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		objects[one.GetKind()+" "+one.GetName()] = object
	}
	return objects
}

// TestChartEqualsKustomize compares the objects from Helm and from kustomize, with and without the optional components.
func TestChartEqualsKustomize(t *testing.T) {
	t.Parallel()
	on := map[string]any{"enabled": true}
	served := map[string]any{"watchNamespace": "fleet"}
	hardened := []string{"high-availability", "network-policy", "user-roles"}
	for _, test := range []struct {
		name, folder, served string
		values               map[string]any
		components           []string
	}{
		{name: "default", folder: "default"},
		{name: "hardened", folder: "default", components: hardened,
			values: map[string]any{"highAvailability": on, "networkPolicy": on, "userRoles": on}},
		{name: "one namespace", folder: "one-namespace", served: "fleet",
			values: map[string]any{"oneNamespace": on, "settings": served}},
		{name: "one namespace, hardened", folder: "one-namespace", served: "fleet", components: hardened,
			values: map[string]any{"oneNamespace": on, "settings": served, "highAvailability": on, "networkPolicy": on,
				"userRoles": on}},
	} {
		for _, namespace := range []string{"helmop-system", "other"} {
			t.Run(test.name+" in "+namespace, func(t *testing.T) {
				t.Parallel()
				got, err := rendered(t, namespace, test.values)
				if err != nil {
					t.Fatal(err)
				}
				want := installed(t, namespace, test.served, test.folder, test.components...)
				if len(want) < 8 {
					t.Fatalf("%d objects", len(want))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the chart differs from kustomize (-kustomize, +chart):\n%s", diff)
				}
			})
		}
	}
}

// TestOneNamespaceNeedsANamespace checks that the chart does not render a manager without any namespace to serve.
func TestOneNamespaceNeedsANamespace(t *testing.T) {
	t.Parallel()
	_, err := rendered(t, "helmop-system", map[string]any{"oneNamespace": map[string]any{"enabled": true}})
	if err == nil || !strings.Contains(err.Error(), "oneNamespace needs settings.watchNamespace") {
		t.Errorf("the error is %v", err)
	}
}

// manager returns the Deployment and its container.
func managerOf(t *testing.T, objects map[string]map[string]any) (pod, container map[string]any) {
	t.Helper()
	pod, ok, err := unstructured.NestedMap(objects["Deployment helmop-controller-manager"], "spec", "template", "spec")
	if err != nil || !ok {
		t.Fatalf("no Deployment in %v: %v", slices.Collect(maps.Keys(objects)), err)
	}
	return pod, pod["containers"].([]any)[0].(map[string]any)
}

// TestSettingsReachTheManager checks values that are decoded from YAML. Helm also decodes the values in files in this
// way, and numbers become floats.
func TestSettingsReachTheManager(t *testing.T) {
	t.Parallel()
	var values map[string]any
	err := yaml.Unmarshal([]byte(`
image: {digest: "sha256:0000"}
settings:
  artifactMaxBytes: 2147483648
  tracingSampleRatio: 0.5
  allowLocalAddresses: true
  watchFilter: 'a "quoted" \ name'
  httpsProxy: http://proxy.example:3128
  kubeApiQps: null
extraArgs: ["--v=4"]
extraEnv: [{name: MORE, value: "1"}]
podLabels: {team: platform}
nodeSelector: {role: management}
affinity: {podAffinity: {}}
resources: {limits: {memory: 4Gi}}
serviceAccount: {annotations: {role: arn}}
crds: {enabled: false}
replicas: 3
highAvailability: {enabled: true}
`), &values)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := rendered(t, "helmop-system", values)
	if err != nil {
		t.Fatal(err)
	}
	checkSettings(t, objects)
	checkFields(t, objects)
}

// checkSettings checks the arguments and the environment of the manager.
func checkSettings(t *testing.T, objects map[string]map[string]any) {
	t.Helper()
	_, container := managerOf(t, objects)
	var args []string
	for _, arg := range container["args"].([]any) {
		args = append(args, arg.(string))
	}
	for _, want := range []string{
		"--artifact-max-bytes=2147483648", "--tracing-sample-ratio=0.5", "--allow-local-addresses=true",
		`--watch-filter=a "quoted" \ name`, "--kube-api-qps=100", "--v=4",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("the manager has no argument %s: %q", want, args)
		}
	}
	env := map[any]any{}
	for _, one := range container["env"].([]any) {
		env[one.(map[string]any)["name"]] = one.(map[string]any)["value"]
	}
	if env["HTTPS_PROXY"] != "$(EMPTY)http://proxy.example:3128" || env["MORE"] != "1" {
		t.Errorf("the environment is %v", env)
	}
}

// checkFields checks the values that are fields of objects.
func checkFields(t *testing.T, objects map[string]map[string]any) {
	t.Helper()
	pod, container := managerOf(t, objects)
	for what, pair := range map[string][2]any{
		"image":        {container["image"], "registry.example/team/manager@sha256:0000"},
		"memory limit": {container["resources"].(map[string]any)["limits"], map[string]any{"memory": "4Gi"}},
		"nodeSelector": {pod["nodeSelector"], map[string]any{"role": "management"}},
		"affinity":     {pod["affinity"], map[string]any{"podAffinity": map[string]any{}}},
	} {
		if !cmp.Equal(pair[0], pair[1]) {
			t.Errorf("%s is %v, not %v", what, pair[0], pair[1])
		}
	}
	deployment := unstructured.Unstructured{Object: objects["Deployment helmop-controller-manager"]}
	labels, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "labels")
	selector, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	if labels["team"] != "platform" || selector["team"] != "" {
		t.Errorf("labels %v, selector %v", labels, selector)
	}
	if replicas := deployment.Object["spec"].(map[string]any)["replicas"]; replicas != 3.0 {
		t.Errorf("%v replicas", replicas)
	}
	account := unstructured.Unstructured{Object: objects["ServiceAccount helmop-manager"]}
	if account.GetAnnotations()["role"] != "arn" {
		t.Errorf("the annotations of the ServiceAccount are %v", account.GetAnnotations())
	}
	for name := range objects {
		if strings.HasPrefix(name, "CustomResourceDefinition ") {
			t.Errorf("%s is installed", name)
		}
	}
}

// TestUnknownValuesAreRefused checks the schema: a misspelt value must not be ignored.
func TestUnknownValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, values := range []map[string]any{
		{"replica": 2},
		{"settings": map[string]any{"kubeAPIQPS": "5"}},
		{"highAvailability": map[string]any{"enable": true}},
		{"replicas": "two"},
	} {
		if _, err := rendered(t, "helmop-system", values); err == nil {
			t.Errorf("the values %v are accepted", values)
		}
	}
}

// TestEachSettingIsExplained checks that each setting has a description, and each variable of config is a setting.
func TestEachSettingIsExplained(t *testing.T) {
	t.Parallel()
	values := string(chartFiles(t)["values.yaml"])
	_, settings, ok := strings.Cut(values, "\nsettings:\n")
	if !ok {
		t.Fatal("no settings")
	}
	names, explained := map[string]bool{}, ""
	for line := range strings.SplitSeq(strings.TrimSpace(settings), "\n") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			explained += text + " "
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		names[name] = true
		if len(strings.Fields(explained)) < 3 {
			t.Errorf("the setting %s is explained by %q", name, explained)
		}
		explained = ""
	}
	text, err := os.ReadFile(filepath.Join(configFolder, "manager", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := variable.FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Fatalf("%d variables", len(found))
	}
	for _, one := range found {
		// The limit is a part of the value "resources".
		if name := camel(one[1]); !names[name] && name != "memoryLimit" {
			t.Errorf("the variable HELMOP_%s is no setting", one[1])
		}
	}
}

// TestHubAnnotations checks that Artifact Hub shows all kinds and the image.
func TestHubAnnotations(t *testing.T) {
	t.Parallel()
	files := chartFiles(t)
	var chart struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal(files["Chart.yaml"], &chart); err != nil {
		t.Fatal(err)
	}
	var kinds []hubCRD
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/crds"]), &kinds); err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if files["files/crds/"+kind.Name+".yaml"] == nil || kind.Version != "v1alpha1" || len(kind.Description) < 20 {
			t.Errorf("%+v", kind)
		}
	}
	if len(kinds) != 3 {
		t.Errorf("%d kinds", len(kinds))
	}
	var images []map[string]string
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/images"]), &images); err != nil {
		t.Fatal(err)
	}
	if len(images) != 1 || images[0]["image"] != "registry.example/team/manager:v1.2.3" {
		t.Errorf("%v", images)
	}
}
