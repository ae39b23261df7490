// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

func chartOf(t *testing.T, files map[string]string) *chart.Chart {
	t.Helper()
	buffered := []*loader.BufferedFile{{Name: "Chart.yaml", Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")}}
	for name, data := range files {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: []byte(data)})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRender(t *testing.T) {
	t.Parallel()
	c := chartOf(t, map[string]string{
		"values.yaml":         "name: own\nkept: yes\n",
		"crds/crd.yaml":       "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\n",
		"templates/NOTES.txt": "no: {object",
		"templates/_help.tpl": `{{ define "n" }}{{ .Values.name }}{{ end }}`,
		"templates/a.yaml": "---\n# none\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include \"n\" . }}\n" +
			"  namespace: {{ .Release.Namespace }}\ndata: {kept: {{ .Values.kept | quote }}}\n---\napiVersion: " +
			"apps/v1\nkind: Deployment\nmetadata: {generateName: d-}\n",
	})
	objects, err := Render(c, RenderOptions{Name: "r", Namespace: "ns", Values: map[string]any{"name": "given"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, ObjectName(object))
	}
	want := []string{"CustomResourceDefinition.apiextensions.k8s.io a.b", "ConfigMap ns/given", "Deployment.apps d-"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if data := objects[1].Object["data"]; !cmp.Equal(data, map[string]any{"kept": "true"}) {
		t.Errorf("%v", data)
	}
}

// TestRenderSplitsLists checks that an object in a list is equal to the same object outside of a list.
func TestRenderSplitsLists(t *testing.T) {
	t.Parallel()
	c := chartOf(t,
		map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, " +
			"metadata: {name: a}}\n" +
			"- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: b}}]}\n" +
			"---\napiVersion: v1\nkind: SecretList\nitems:\n- metadata: {name: c}\n---\napiVersion: v1\nkind: List\nitems: []\n"})
	objects, err := Render(c, RenderOptions{Name: "r"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.GetAPIVersion()+" "+ObjectName(object))
	}
	if diff := cmp.Diff([]string{"v1 Secret a", "v1 Secret b", "v1 Secret c"}, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"no YAML":              "a: b: c",
		"no object":            "- a",
		"no object in a list":  "{apiVersion: v1, kind: List, items: [a]}",
		"a template's failure": `{{ fail "no" }}`,
		"no template":          "{{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := chartOf(t, map[string]string{"templates/a.yaml": file})
			if _, err := Render(c, RenderOptions{Name: "r"}); !errors.Is(err, ErrInvalidChart) ||
				!strings.Contains(err.Error(), "a.yaml") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestMergeValues(t *testing.T) {
	t.Parallel()
	base := map[string]any{"a": map[string]any{"b": 1, "c": 2}, "d": 3, "f": map[string]any{"g": 6}, "h": 7, "i": 8}
	over := map[string]any{
		"a": map[string]any{"b": nil, "e": 5}, "f": []any{9}, "h": map[string]any{"j": 10}, "i": nil, "k": nil,
	}
	kept := maps.Clone(base)
	got := MergeValues(base, over)
	want := map[string]any{
		"a": map[string]any{"b": nil, "c": 2, "e": 5}, "d": 3, "f": []any{9}, "h": map[string]any{"j": 10}, "i": nil,
		"k": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !cmp.Equal(base, kept) || len(over["a"].(map[string]any)) != 2 {
		t.Errorf("changed: %v, %v", base, over)
	}
}
