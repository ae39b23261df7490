// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
)

// parsed returns an object from YAML.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// definition returns a CustomResourceDefinition that serves the kind Widget in a version.
func definition(t *testing.T, version string) *unstructured.Unstructured {
	t.Helper()
	return parsed(t, "{apiVersion: apiextensions.k8s.io/v1, "+
		"kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, "+
		"names: {kind: Widget}, versions: [{name: "+version+", served: true}]}}")
}

// TestDefinitionsAfter checks which definition applies after a release is installed or upgraded.
func TestDefinitionsAfter(t *testing.T) {
	t.Parallel()
	other := parsed(t, "{apiVersion: v1, kind: Secret}")
	in := func(objects ...*unstructured.Unstructured) apilifecycle.Definitions {
		definitions, err := definitionsIn(objects)
		if err != nil {
			t.Fatal(err)
		}
		return definitions
	}
	cluster, file := in(definition(t, "v1")), in(other, definition(t, "v2"))
	rendered := in(definition(t, "v3"), other)
	for name, tc := range map[string]struct {
		cluster, files, rendered apilifecycle.Definitions
		replaces                 bool
		want                     string
	}{
		"none":                     {},
		"of the cluster":           {cluster: cluster, want: "v1"},
		"a file is not replaced":   {cluster: cluster, files: file, want: "v1"},
		"a file is replaced":       {cluster: cluster, files: file, replaces: true, want: "v2"},
		"a file is created":        {files: file, want: "v2"},
		"a template is applied":    {cluster: cluster, rendered: rendered, want: "v3"},
		"a template after a file":  {files: file, rendered: rendered, replaces: true, want: "v3"},
		"the cluster stays itself": {cluster: cluster, replaces: true, want: "v1"},
	} {
		var versions []string
		for _, one := range definitionsAfter(tc.cluster, tc.files, tc.rendered, tc.replaces) {
			versions = append(versions, one.Spec.Versions[0].Name)
		}
		if strings.Join(versions, " ") != tc.want {
			t.Errorf("%s: got %v, want %q", name, versions, tc.want)
		}
	}
	broken := definition(t, "v1")
	broken.Object["spec"] = "none"
	if _, err := definitionsIn([]*unstructured.Unstructured{broken}); err == nil {
		t.Error("a malformed definition is accepted")
	}
}
