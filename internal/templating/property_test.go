// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	sigsyaml "sigs.k8s.io/yaml"
)

func cni() Spec {
	return Spec{
		ReleaseName: "cni-{{ .Cluster.metadata.name }}", ReleaseNamespace: "kube-system",
		ValuesFrom: []ValuesSource{{Origin: "ConfigMap cni key values.yaml",
			Data: []byte("resources: {limits: {cpu: 1, memory: 1Gi}}\nlog: info")}},
		Values: []byte(`{"k8sServiceHost": "{{ .Cluster.spec.controlPlaneEndpoint.host }}",
			"k8sServicePort": "{{ .Cluster.spec.controlPlaneEndpoint.port }}", "kubeProxyReplacement": true,
			"cluster": {"name": "{{ .Cluster.metadata.name }}", "id": 1}, "operator": {"replicas": "{{ .ControlPlane.spec.replicas }}"},
			"ipam": {"mode": "cluster-pool", "operator": {"clusterPoolIPv4PodCIDRList": "{{ .Cluster.spec.clusterNetwork.pods.cidrBlocks }}"}}}`),
		ValuesTemplate: `
installation:
  calicoNetwork:
    ipPools:
    {{- range .Cluster.spec.clusterNetwork.pods.cidrBlocks }}
    - cidr: {{ . }}
      encapsulation: VXLAN
    {{- end }}
  labels: {{- .Cluster.metadata.labels | toYaml | nindent 4 }}
`,
	}
}

// TestDeterministic checks that the same input has the same digest, for any order of maps and for concurrent
// renderings. Rendering must not change its input.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	p, err := Compile(cni())
	if err != nil {
		t.Fatal(err)
	}
	shared, untouched := sample(), sample()
	want, err := p.Render(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				got, err := p.Render(t.Context(), shared)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, %v, want %v", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	if !reflect.DeepEqual(shared, untouched) {
		t.Error("rendering changed its input")
	}
}

// TestTypicalValuesNeedSmallPartOfBudget checks that typical values need a small part of the budget.
func TestTypicalValuesNeedSmallPartOfBudget(t *testing.T) {
	t.Parallel()
	p, err := Compile(cni())
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t.Context(), sample(), maxWork)
	r.root["Release"] = map[string]any{}
	if _, err := p.own.values.render(r); err != nil {
		t.Fatal(err)
	}
	if _, err := p.own.valuesTemplate.renderYAML(r); err != nil {
		t.Fatal(err)
	}
	if used := maxWork - r.work; used == 0 || used > maxWork/100 {
		t.Errorf("the values of a CNI take %d of %d", used, maxWork)
	} else {
		t.Logf("the values of a CNI take %d of %d", used, maxWork)
	}
}

// TestDigestOfNumbers checks that numbers have one form, from JSON, from YAML or from an object.
func TestDigestOfNumbers(t *testing.T) {
	t.Parallel()
	digests := map[string]string{}
	for _, values := range []string{`{"a": 1}`, `{"a": 1.0}`, `{"a": 1e0}`, `{"a": "{{ 1 }}"}`, `{"a": "{{ 1.0 }}"}`,
		`{"a": "{{ fromJson \"1\" }}"}`} {
		spec := base()
		spec.Values = []byte(values)
		digests[mustRender(t, spec, sample()).Digest] = values
	}
	if len(digests) != 1 {
		t.Errorf("got several digests: %v", digests)
	}
}

// TestMutationsStayInTheirTemplate checks that a template that changes an object does not affect other templates.
func TestMutationsStayInTheirTemplate(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		`set .Cluster.metadata "name" "changed"`, `unset .Cluster.metadata "name"`,
		`mergeOverwrite .Cluster (dict "metadata" (dict "name" "changed"))`, `merge .Cluster.metadata (dict "x" "y")`,
		`mustMergeOverwrite .Cluster.metadata (dict "name" "changed")`, `unset . "Cluster"`,
		`set .ClusterValues.Cluster "metadata" 1`,
	} {
		spec := base()
		values, err := json.Marshal(map[string]string{"a": "x{{ $_ := " + change + " }}",
			"b": "{{ .Cluster.metadata.name }} {{ hasKey .Cluster.metadata \"x\" }}"})
		if err != nil {
			t.Fatal(err)
		}
		spec.Values = values
		spec.ValuesTemplate = "{{ $_ := " + change + " }}{{ $d := dict }}{{ $_ := set $d \"a\" 1 }}c: {{ $d.a }}"
		objects := sample()
		result := mustRender(t, spec, objects)
		want := map[string]any{"a": "x", "b": "alpha false", "c": int64(1)}
		if !reflect.DeepEqual(result.Values, want) {
			t.Errorf("%s: got %v, want %v", change, result.Values, want)
		}
		if !reflect.DeepEqual(objects, sample()) {
			t.Errorf("%s changed its input", change)
		}
	}
}

// FuzzDataDoesNotBecomeStructure checks that any label becomes one string in the values and changes nothing else.
func FuzzDataDoesNotBecomeStructure(f *testing.F) {
	for _, s := range []string{
		"", "1.10", "true", "null", "~", "a: b", "- x", "x\ny: 1", "\"", "'", "\\", "#", " #x", "{a: 1}", "[", "]", "*a",
		"&a", "!!int 1", "|", ">-",
		"%", "@", "`", "\ue0000\ue001", "\ue000", "\u2028", "\u0085", "\ufeff", "\x00", "{{ .x }}", "---", "...", "\t",
		" lead", "trail ", "\r\n", "\n\n", "<<", "=",
	} {
		f.Add(s)
	}
	spec := base()
	spec.Values = []byte(`{"leaf": "{{ .ClusterLabels.l }}", "text": "<{{ .ClusterLabels.l }}>"}`)
	spec.ValuesTemplate = `
plain: {{ .ClusterLabels.l }}
double: "{{ .ClusterLabels.l }}"
single: '{{ .ClusterLabels.l }}'
quote: {{ quote .ClusterLabels.l }}
squote: {{ squote .ClusterLabels.l }}
json: {{ toJson .ClusterLabels }}
nested:
  yaml: {{ toYaml .ClusterLabels.l }}
  map: {{- toYaml .ClusterLabels | nindent 4 }}
  list: [{{ .ClusterLabels.l }}, {{ .ClusterLabels.l | quote }}]
  key: {? {{ .ClusterLabels.l }} : 1}
  wrapped: <{{ .ClusterLabels.l }}>
after: 1
`
	p, err := Compile(spec)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip("the API server serves UTF-8")
		}
		objects := Objects{Cluster: map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": s}}}}
		result, err := p.Render(t.Context(), objects)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"leaf": s, "text": "<" + s + ">", "plain": s, "double": s, "single": s, "quote": s, "squote": s,
			"json": map[string]any{"l": s}, "after": int64(1),
			"nested": map[string]any{
				"yaml": s, "map": map[string]any{"l": s}, "list": []any{s, s}, "key": map[string]any{s: int64(1)},
				"wrapped": "<" + s + ">",
			},
		}
		if !reflect.DeepEqual(result.Values, want) {
			t.Errorf("got %#v, want %#v", result.Values, want)
		}
	})
}

// FuzzIndentedDataStaysInItsBlock checks that any indented data stay within their block.
func FuzzIndentedDataStaysInItsBlock(f *testing.F) {
	for _, s := range []string{"a\nb", "", "\n", " x\ny", "x\n  y\n", "a: b\nc: d", "\t", "---\n...", "\ue0000\ue001\n"} {
		f.Add(s)
	}
	spec := base()
	spec.ValuesTemplate = "a:\n  b: |-\n    x\n{{ .ClusterLabels.l | indent 4 }}\nafter: 1\n"
	p, err := Compile(spec)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip("the API server serves UTF-8")
		}
		objects := Objects{Cluster: map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": s}}}}
		result, err := p.Render(t.Context(), objects)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := result.Values["a"].(map[string]any)
		if _, isText := a["b"].(string); !isText || len(a) != 1 || len(result.Values) != 2 {
			t.Errorf("got %#v", result.Values)
		}
	})
}

// FuzzTemplate checks that no template causes a panic, and that a second rendering has the same result as the first.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		cni().ValuesTemplate, "a: {{ .Cluster }}", "{{ define \"x\" }}{{ . }}{{ end }}{{ template \"x\" 1 }}", "{{ break }}",
		"{{ range 3 }}{{ continue }}{{ end }}",
		"{{ (semver \"1.2.3\").Major }}", "{{ slice (list 1 2) 1 }}", "{{ $x := 1 }}{{ $x = toJson . }}{{ $x | indent 2 }}",
		"{{ with $y := 3 }}{{ $y }}{{ end }}",
		"{{ call . }}", "{{ printf \"%v\" . }}", "{{ set . \"a\" . }}", "{{ template \"helmop\" }}",
		"{{ block \"b\" . }}x{{ end }}", "{{ 1 | and | or }}", "{{ html . | js }}",
		"{{ __emit 1 }}", "{{ chunk 0 (list 1) }}", "{{ substr 5 2 \"abc\" }}", "{{ round 1e300 400 }}",
		"{{ mulf 1e308 1e308 }}", "{{ untilStep 0 5 0 }}", "{{ trunc -9 \"a\" }}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := json.Marshal(map[string]any{"a": text})
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range []Spec{
			{ReleaseName: "r", ReleaseNamespace: "n", ValuesTemplate: text},
			{ReleaseName: "r", ReleaseNamespace: "n", Values: values},
			{ReleaseName: text, ReleaseNamespace: "n"},
			{ReleaseName: "r", ReleaseNamespace: "n", Overrides: []Override{{Name: "o", Values: values}}},
		} {
			first, err := renderQuietly(t, spec)
			again, errAgain := renderQuietly(t, spec)
			if first.Digest != again.Digest || fmt.Sprint(err) != fmt.Sprint(errAgain) {
				t.Errorf("two renderings differ: %v and %v, %v and %v", first, again, err, errAgain)
			}
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("got a %T", err)
			}
			if err != nil && strings.Contains(err.Error(), secret) && !strings.Contains(text, secret) {
				t.Errorf("error %q gives away data", err)
			}
		}
	})
}

func renderQuietly(t *testing.T, spec Spec) (Result, error) {
	p, err := Compile(spec)
	if err != nil {
		return Result{}, err
	}
	return p.Render(t.Context(), sample(), 0)
}

// FuzzYAMLReadsLikeHelm checks that this package and Helm read the same values. This package intentionally refuses some
// values that Helm accepts.
func FuzzYAMLReadsLikeHelm(f *testing.F) {
	for _, s := range []string{
		"a: 1", "a: [x, 'y', \"z\"]", "a: 010\nb: 0x1f\nc: 1_000\nd: 1e3\ne: .5", "a: yes\nb: No\nc: y", "a: ~\nb:",
		"a: |\n  x\n  y\n", "a: 2024-01-01T00:00:00Z",
		"a: &x 1\nb: *x", "1: a\n1.5: b", "a: 0o17", "a: -0", "a: +5", "a: 12345678901234567890", "a: 0b11", "a: 1:30", "{}",
		"# x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseValues([]byte(text))
		if err != nil {
			t.Skip("refused")
		}
		var helm map[string]any
		if err := sigsyaml.Unmarshal([]byte(text), &helm); err != nil {
			t.Skip("refused by Helm")
		}
		want, err := canonical(helm)
		if err != nil {
			t.Skip("refused")
		}
		if len(got) == 0 && len(helm) == 0 {
			return
		}
		if !likeHelm(got, want) {
			t.Errorf("got %#v, Helm reads %#v", got, want)
		}
	})
}

// likeHelm compares values with two intentional differences: integers stay exact, and keys are their literal text.
func likeHelm(got, helm any) bool {
	switch g := got.(type) {
	case map[string]any:
		h, ok := helm.(map[string]any)
		for k, v := range g {
			if hv, same := h[k]; same && !likeHelm(v, hv) {
				return false
			}
		}
		return ok
	case []any:
		h, ok := helm.([]any)
		return ok && slices.EqualFunc(g, h, likeHelm)
	case int64:
		if f, ok := helm.(float64); ok {
			return float64(g) == f
		}
	}
	return reflect.DeepEqual(got, helm)
}

func BenchmarkRender(b *testing.B) {
	p, err := Compile(cni())
	if err != nil {
		b.Fatal(err)
	}
	objects := sample()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Render(b.Context(), objects); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenderRelease(b *testing.B) {
	p, err := Compile(cni())
	if err != nil {
		b.Fatal(err)
	}
	objects := sample()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.RenderRelease(b.Context(), objects); err != nil {
			b.Fatal(err)
		}
	}
}
