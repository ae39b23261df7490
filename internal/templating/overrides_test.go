// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
)

// withOverrides returns a spec with all sources of values, and the names of its overrides.
func withOverrides() Spec {
	spec := base()
	spec.ValuesFrom = []ValuesSource{{Origin: "ConfigMap c key k",
		Data: []byte("from: 1\nname: from\nkeep: {a: 1, b: [1, 2]}")}}
	spec.Values = []byte(`{"name": "values", "replicas": 1, "nodes": ["a", "b"]}`)
	spec.ValuesTemplate = "name: template\nregion: {{ .Cluster.metadata.labels.region }}\n"
	spec.Overrides = []Override{
		{Name: "large",
			Values: []byte(`{"name": "large", "replicas": "{{ mul .ControlPlane.spec.replicas 2 }}", "nodes": ["c"], "keep": {"a": 2}}`)},
		{Name: "bare",
			Values: []byte(`{"name": "{{ .Release.Name }}-{{ .Cluster.metadata.labels.evil }}", "keep": null, "region": null}`)},
		{Name: "chart only"},
	}
	return spec
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	plain := map[string]any{
		"from": int64(1), "name": "template", "replicas": int64(1), "nodes": []any{"a", "b"}, "region": "eu-1",
		"keep": map[string]any{"a": int64(1), "b": []any{int64(1), int64(2)}},
	}
	with := func(changes map[string]any) map[string]any {
		changed := mustCanonical(t, plain)
		maps.Copy(changed, changes)
		return changed
	}
	large := map[string]any{
		"name": "large", "replicas": int64(6), "nodes": []any{"c"},
		"keep": map[string]any{"a": int64(2), "b": []any{int64(1), int64(2)}},
	}
	bare := map[string]any{"name": "r-x\nreplicas: 7", "keep": nil, "region": nil}
	program, err := Compile(withOverrides())
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for name, tc := range map[string]struct {
		apply []int
		want  map[string]any
	}{
		"none":                 {nil, plain},
		"on top of everything": {[]int{0}, with(large)},
		"null removes":         {[]int{1}, with(bare)},
		"a later one wins": {[]int{0, 1},
			with(map[string]any{"name": bare["name"], "replicas": int64(6), "nodes": []any{"c"}, "keep": nil, "region": nil})},
		"what null removed is given": {[]int{1, 0},
			with(map[string]any{"name": "large", "replicas": int64(6), "nodes": []any{"c"},
				"keep": map[string]any{"a": int64(2)}, "region": nil})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := program.Render(t.Context(), sample(), tc.apply...)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Values, tc.want) {
				t.Errorf("got %v, want %v", got.Values, tc.want)
			}
			if twin, ok := digests[got.Digest]; ok {
				t.Errorf("the digest is that of %q", twin)
			}
			digests[got.Digest] = name
		})
	}
}

// TestOverridesWithoutValues checks that overrides without values and unknown indices change nothing.
func TestOverridesWithoutValues(t *testing.T) {
	t.Parallel()
	program, err := Compile(withOverrides())
	if err != nil {
		t.Fatal(err)
	}
	want, err := program.Render(t.Context(), sample())
	if err != nil {
		t.Fatal(err)
	}
	got, err := program.Render(t.Context(), sample(), 2, -1, 3)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func mustCanonical(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	copied, err := canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return copied.(map[string]any)
}

// TestOverrideErrors checks that errors name the override. An invalid override must not affect Clusters that do not use
// it.
func TestOverrideErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values string
		want   string
		reason Reason
	}{
		"missing key": {
			`{"a": {"b": ["x", "{{ .Cluster.spec.nothing }}"]}}`,
			`spec.overrides[1].values.a.b[1] (override gpu) line 1: `, ReasonMissingKey,
		},
		"does not parse": {`{"a": "{{ if }}"}`, `spec.overrides[1].values.a (override gpu) line 1: `, ReasonInvalidTemplate},
		"a key that is a template": {
			`{"{{ .x }}": 1}`, `spec.overrides[1].values["{{ .x }}"] (override gpu): a key is not a template`,
			ReasonInvalidTemplate,
		},
		"no map": {`[1]`, `spec.overrides[1].values (override gpu): is not a map`, ReasonInvalidValues},
		"too much work": {
			`{"a": "{{ range until 9999 }}{{ range until 9999 }}{{ end }}{{ end }}"}`,
			`spec.overrides[1].values.a (override gpu) line 1: takes too much work`, ReasonLimitExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.Overrides = []Override{{Name: "first"}, {Name: "gpu", Values: []byte(tc.values)}}
			program, err := Compile(spec)
			if err == nil {
				if _, err := program.Render(t.Context(), sample(), 0); err != nil {
					t.Errorf("a Cluster that the override is not for fails: %v", err)
				}
				_, err = program.Render(t.Context(), sample(), 0, 1)
			}
			var got *Error
			if !errors.As(err, &got) || got.Reason != tc.reason || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s and %s", err, tc.reason, tc.want)
			}
		})
	}
}

// FuzzOverride checks with two random documents that an override merges over the values like maps merge. It must not
// change either document.
func FuzzOverride(f *testing.F) {
	f.Add(`{"a": {"b": 1}, "c": [1]}`, `{"a": {"b": null, "d": {}}, "c": []}`)
	f.Add(`{}`, `{"a": null}`)
	f.Add(`{"a": 1}`, `{"a": {"b": 1}}`)
	f.Add(`{"a": {"b": 1}}`, `{"a": "{{ .ClusterName }}"}`)
	f.Fuzz(func(t *testing.T, below, above string) {
		plain, alone := base(), base()
		plain.Values, alone.Values = []byte(below), []byte(above)
		bottom, err := renderQuietly(t, plain)
		if err != nil {
			t.Skip("not values")
		}
		top, err := renderQuietly(t, alone)
		if err != nil {
			t.Skip("not values")
		}
		plain.Overrides = []Override{{Name: "o", Values: []byte(above)}}
		program, err := Compile(plain)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := program.Render(t.Context(), sample(), 0)
			if err != nil {
				t.Fatal(err)
			}
			want := merge(mustCanonical(t, bottom.Values), mustCanonical(t, top.Values))
			if !reflect.DeepEqual(got.Values, want) {
				t.Errorf("%s on %s is %v, want %v", above, below, got.Values, want)
			}
			if again, err := program.Render(t.Context(), sample()); err != nil || again.Digest != bottom.Digest {
				raw, _ := json.Marshal(again.Values)
				t.Errorf("without the override it is %s, %v, want %s", raw, err, below)
			}
		}
	})
}
