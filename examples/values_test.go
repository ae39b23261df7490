// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/publiccharts"
)

// TestValueNames checks that each value in a golden file is a value of its chart, for the charts that package
// publiccharts finds.
func TestValueNames(t *testing.T) {
	t.Parallel()
	goldens, err := filepath.Glob(filepath.Join("testdata", "golden", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, golden := range goldens {
		t.Run(strings.TrimSuffix(filepath.Base(golden), ".yaml"), func(t *testing.T) {
			t.Parallel()
			var rendered struct {
				Chart  string         `json:"chart"`
				Values map[string]any `json:"values"`
			}
			if err := yaml.Unmarshal(readFile(t, golden), &rendered); err != nil {
				t.Fatal(err)
			}
			folder, err := publiccharts.Find(t.Context(), path.Base(rendered.Chart), t.TempDir())
			if errors.Is(err, publiccharts.ErrNotHere) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range readChart(t, folder).unknown(rendered.Values) {
				t.Errorf("the chart %s has no value %q", rendered.Chart, name)
			}
		})
	}
}

// chart is what the values of a chart are checked with.
type chart struct {
	defaults  map[string]any
	templates string
}

func readChart(t *testing.T, folder string) chart {
	t.Helper()
	var c chart
	if err := yaml.Unmarshal(readFile(t, filepath.Join(folder, "values.yaml")), &c.defaults); err != nil {
		t.Fatal(err)
	}
	root := os.DirFS(filepath.Join(folder, "templates"))
	if err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := fs.ReadFile(root, name)
		c.templates += string(raw)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// unknown returns the paths of values that the chart does not have. A chart has a value if it has a default, or if a
// template reads it. Each name is a value below a default that is empty, and in a map that a template passes on whole.
func (c chart) unknown(values map[string]any) []string {
	var names []string
	var check func(at string, values, defaults map[string]any)
	check = func(at string, values, defaults map[string]any) {
		for key, value := range values {
			name := at + key
			known, ok := defaults[key]
			if !ok && !c.reads(`\.Values\.`+regexp.QuoteMeta(name)) {
				names = append(names, name)
				continue
			}
			below, isMap := value.(map[string]any)
			defaultBelow, hasDefaults := known.(map[string]any)
			switch {
			case !isMap:
				if hasDefaults && len(defaultBelow) > 0 {
					names = append(names, name+", which is a map,")
				}
			case len(defaultBelow) > 0 && !c.reads(`(range|omit|toYaml)[^}]*\.Values\.`+regexp.QuoteMeta(name)):
				check(name+".", below, defaultBelow)
			}
		}
	}
	check("", values, c.defaults)
	slices.Sort(names)
	return names
}

func (c chart) reads(expression string) bool {
	return regexp.MustCompile(expression + `([^A-Za-z0-9_.]|$)`).MatchString(c.templates)
}

func TestUnknownValues(t *testing.T) {
	t.Parallel()
	c := chart{
		defaults: map[string]any{"replicas": 1, "free": map[string]any{}, "none": nil,
			"image": map[string]any{"tag": ""}, "env": map[string]any{"A": ""}, "spec": map[string]any{"A": ""}},
		templates: "{{ .Values.hostNetworking }}{{ range $name, $value := .Values.env }}{{ omit .Values.spec \"A\" }}",
	}
	got := c.unknown(map[string]any{
		"replicas": 2, "hostNetworking": true, "hostNetwork": true,
		"free": map[string]any{"x": 1}, "none": map[string]any{"x": 1}, "env": map[string]any{"B": ""},
		"spec":  map[string]any{"B": ""},
		"image": map[string]any{"tag": "1", "tags": "1"},
	})
	if want := []string{"hostNetwork", "image.tags"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := c.unknown(map[string]any{"image": "x"}), []string{"image, which is a map,"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestVSphereConfiguration renders the template next to the manifests of the CSI driver, with the values of its
// example.
func TestVSphereConfiguration(t *testing.T) {
	t.Parallel()
	const file = "vsphere-csi-driver.yaml"
	example := readExample(t, file)
	values := example.render(t, example.helmOps[0], "vsphere")["values"]
	parsed, err := template.New(file).Option("missingkey=error").Funcs(template.FuncMap{"quote": strconv.Quote}).
		Parse(string(readFile(t, filepath.Join("vsphere-csi", "secret.yaml"))))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any{"Values": values}); err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(out.Bytes(), &secret); err != nil {
		t.Fatal(err)
	}
	const want = `[Global]
cluster-id = "default-vsphere"
thumbprint = "AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD"

[VirtualCenter "vcenter.example.com"]
user = "replace-me"
password = "replace-me"
port = "443"
datacenters = "dc-1"
`
	if got := secret.StringData["csi-vsphere.conf"]; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
