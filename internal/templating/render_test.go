// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// secret is a text in the data of the sample Cluster. No error may contain it.
const secret = "hunter2-c0ffee"

func sample() Objects {
	return Objects{
		Cluster: object(`{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
			"metadata": {
				"name": "alpha", "namespace": "fleet",
				"labels": {"region": "eu-1", "version": "1.10", "enabled": "true", "evil": "x\nreplicas: 7", "secret": "` + secret + `"},
				"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "a: b # c"},
				"managedFields": [{"manager": "kubectl"}]
			},
			"spec": {
				"clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16", "10.2.0.0/16"]}, "serviceDomain": "cluster.local"},
				"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}
			}
		}`),
		ControlPlane:          object(`{"kind": "KubeadmControlPlane", "spec": {"replicas": 3, "version": "v1.34.0", "ratio": 0.5, "paused": false}}`),
		InfrastructureCluster: object(`{"kind": "AWSCluster", "spec": {"region": "eu-west-1"}, "status": {"network": {"vpc": "vpc-1"}}}`),
	}
}

func object(text string) map[string]any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	c, err := canonical(v)
	if err != nil {
		panic(err)
	}
	return c.(map[string]any)
}

func base() Spec { return Spec{ReleaseName: "r", ReleaseNamespace: "ns"} }

func render(t *testing.T, spec Spec, objects Objects) (Result, error) {
	t.Helper()
	p, err := Compile(spec)
	if err != nil {
		return Result{}, err
	}
	return p.Render(t.Context(), objects)
}

func mustRender(t *testing.T, spec Spec, objects Objects) Result {
	t.Helper()
	result, err := render(t, spec, objects)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return result
}

func TestValuesKeepTypes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leaf string
		want any
	}{
		"literal":                       {"10.0.0.0/8", "10.0.0.0/8"},
		"literal with other delimiters": {"${HOME}", "${HOME}"},
		"number":                        {"{{ .ControlPlane.spec.replicas }}", int64(3)},
		"float":                         {"{{ .ControlPlane.spec.ratio }}", 0.5},
		"boolean":                       {"{{ .ControlPlane.spec.paused }}", false},
		"trim marks and a comment":      {"{{- .ControlPlane.spec.replicas -}}{{/* n */}}", int64(3)},
		"list": {"{{ .Cluster.spec.clusterNetwork.pods.cidrBlocks }}",
			[]any{"10.1.0.0/16", "10.2.0.0/16"}},
		"map": {"{{ .Cluster.spec.controlPlaneEndpoint }}",
			map[string]any{"host": "10.0.0.1", "port": int64(6443)}},
		"string that looks like a number":  {"{{ .Cluster.metadata.labels.version }}", "1.10"},
		"string that looks like a boolean": {"{{ .Cluster.metadata.labels.enabled }}", "true"},
		"string with a line break":         {"{{ .Cluster.metadata.labels.evil }}", "x\nreplicas: 7"},
		"number made text":                 {"{{ .Cluster.spec.controlPlaneEndpoint.port | toString }}", "6443"},
		"text made boolean":                {"{{ .Cluster.metadata.labels.enabled | fromYaml }}", true},
		"comparison":                       {`{{ eq .Cluster.metadata.labels.enabled "true" }}`, true},
		"text around":                      {"p-{{ .ControlPlane.spec.replicas }}", "p-3"},
		"space around":                     {" {{ .ControlPlane.spec.replicas }}", " 3"},
		"two actions":                      {"{{ .ControlPlane.spec.replicas }}{{ .ControlPlane.spec.replicas }}", "33"},
		"conditional is text":              {"{{ if .ControlPlane }}3{{ end }}", "3"},
		"arithmetic":                       {"{{ add .ControlPlane.spec.replicas 2 }}", int64(5)},
		"int64 where sprig wants int":      {`{{ repeat .ControlPlane.spec.replicas "ab" }}`, "ababab"},
		"list of strings of sprig":         {`{{ splitList "." "a.b" }}`, []any{"a", "b"}},
		"map of strings of sprig":          {`{{ split "." "a.b" }}`, map[string]any{"_0": "a", "_1": "b"}},
		"toYaml": {`{{ toYaml .Cluster.spec.controlPlaneEndpoint }}`,
			"host: 10.0.0.1\nport: 6443"},
		"quote":                          {`{{ quote .Cluster.metadata.name }}`, `"alpha"`},
		"default of what is not there":   {`{{ index .Cluster.metadata.labels "nope" | default 4 }}`, int64(4)},
		"dig":                            {`{{ dig "spec" "nope" "x" .Cluster }}`, "x"},
		"absent object in a condition":   {`{{ ternary "y" "n" (empty .ClusterClass) }}`, "y"},
		"sorted keys":                    {`{{ keys .Cluster.metadata.labels | first }}`, "enabled"},
		"the release":                    {"{{ .Release.Name }}/{{ .Release.Namespace }}", "r/ns"},
		"alias of CAAPH":                 {"{{ .InfraCluster.spec.region }}", "eu-west-1"},
		"alias of Fleet":                 {"{{ .ClusterValues.Cluster.spec.controlPlaneEndpoint.port }}", int64(6443)},
		"alias of Fleet, control plane":  {"{{ .ClusterValues.ControlPlane.spec.replicas }}", int64(3)},
		"alias of Fleet, infrastructure": {"{{ .ClusterValues.InfrastructureCluster.spec.region }}", "eu-west-1"},
		"alias of Fleet, names": {"{{ .ClusterNamespace }}/{{ .ClusterName }}/{{ .ClusterLabels.region " +
			"}}/{{ .ClusterAnnotations.note }}", "fleet/alpha/eu-1/a: b # c"},
		"no managed fields":             {`{{ hasKey .Cluster.metadata "managedFields" }}`, false},
		"no last applied configuration": {`{{ keys .Cluster.metadata.annotations }}`, []any{"note"}},
		"semver":                        {"{{ (semver .ControlPlane.spec.version).Minor }}", int64(34)},
		"large integer":                 {`{{ fromJson "9007199254740993" }}`, int64(9007199254740993)},
		"integral float":                {`{{ mulf 2.0 1000000 }}`, int64(2000000)},
		"integral float in text":        {`x{{ mulf 2.0 1000000 }}`, "x2000000"},
		"set works on a copy":           {`{{ (set .Cluster "x" 1).x }}`, int64(1)},
		"set of a map into itself has an end": {`{{ $d := dict "a" 1 }}{{ $_ := set $d "d" $d }}{{ $d | toJson }}`,
			`{"a":1,"d":{"a":1}}`},
		"merge of a map into itself has an end": {`{{ $d := dict "a" 1 }}{{ $_ := merge $d (dict "d" $d) }}{{ $d | toJson }}`,
			`{"a":1,"d":{"a":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, err := json.Marshal(map[string]any{"a": map[string]any{"b": tc.leaf}})
			if err != nil {
				t.Fatal(err)
			}
			spec := base()
			spec.Values = values
			got := mustRender(t, spec, sample()).Values["a"].(map[string]any)["b"]
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %#v, want %#v", got, tc.want)
			}
		})
	}
}

func TestDollarDelimiters(t *testing.T) {
	t.Parallel()
	spec := base()
	spec.Delimiters = Dollar
	spec.ReleaseName = "cni-${ .Cluster.metadata.name }"
	spec.Values = []byte(`{"n": "${ .ControlPlane.spec.replicas }", "helm": "{{ .Values.x }}", "env": "${"${"}PWD}"}`)
	spec.ValuesTemplate = `
ipPools:
${- range $cidr := .ClusterValues.Cluster.spec.clusterNetwork.pods.cidrBlocks }
- cidr: "${ $cidr }"
${- end }
`
	result, err := render(t, spec, sample())
	if err == nil {
		t.Fatalf("a quote within JSON was not escaped, yet it was read: %v", result)
	}
	spec.Values = []byte(`{"n": "${ .ControlPlane.spec.replicas }", "helm": "{{ .Values.x }}", "env": "${\"${\"}PWD}"}`)
	result = mustRender(t, spec, sample())
	want := map[string]any{
		"n": int64(3), "helm": "{{ .Values.x }}", "env": "${PWD}",
		"ipPools": []any{map[string]any{"cidr": "10.1.0.0/16"}, map[string]any{"cidr": "10.2.0.0/16"}},
	}
	if !reflect.DeepEqual(result.Values, want) || result.Name != "cni-alpha" {
		t.Errorf("got %#v of %q", result.Values, result.Name)
	}
}

func TestValuesTemplate(t *testing.T) {
	t.Parallel()
	cidrs := []any{"10.1.0.0/16", "10.2.0.0/16"}
	for name, tc := range map[string]struct {
		template string
		want     map[string]any
	}{
		"literal":        {"a: 1\nb: [x, 1.5, true, null]", map[string]any{"a": int64(1), "b": []any{"x", 1.5, true, nil}}},
		"empty":          {"{{ if false }}a: 1{{ end }}", map[string]any{}},
		"only a comment": {"# {{ .Cluster.metadata.labels.evil }}", map[string]any{}},
		"range": {"a:\n{{- range .Cluster.spec.clusterNetwork.pods.cidrBlocks }}\n- {{ . }}\n{{- end }}",
			map[string]any{"a": cidrs}},
		"numbers and booleans are typed": {
			"a: {{ .ControlPlane.spec.replicas }}\nb: {{ .ControlPlane.spec.paused }}\nc: {{ .ControlPlane.spec.ratio }}",
			map[string]any{"a": int64(3), "b": false, "c": 0.5},
		},
		"strings stay strings": {
			"a: {{ .Cluster.metadata.labels.version }}\nb: {{ .Cluster.metadata.labels.enabled }}\nc: v{{ " +
				".Cluster.metadata.labels.version }}",
			map[string]any{"a": "1.10", "b": "true", "c": "v1.10"},
		},
		"a string made a boolean": {"a: {{ fromYaml .Cluster.metadata.labels.enabled }}", map[string]any{"a": true}},
		"data has no structure": {
			"a:\n  b: {{ .Cluster.metadata.labels.evil }}\n  c: \"{{ .Cluster.metadata.labels.evil }}\"\n  d: '{{ " +
				".Cluster.metadata.labels.evil }}'\n  e: [{{ .Cluster.metadata.annotations.note }}]",
			map[string]any{"a": map[string]any{"b": "x\nreplicas: 7", "c": "x\nreplicas: 7", "d": "x\nreplicas: 7",
				"e": []any{"a: b # c"}}},
		},
		"data has no structure after indent": {
			"a:\n  b: |-\n{{ .Cluster.metadata.labels.evil | indent 4 }}",
			map[string]any{"a": map[string]any{"b": "x\nreplicas: 7"}},
		},
		"data has no structure after nindent": {
			"a: |-\n  {{- .Cluster.metadata.labels.evil | nindent 2 }}", map[string]any{"a": "x\nreplicas: 7"},
		},
		"keys": {"{{ .Cluster.metadata.name }}: 1\n{{ .Cluster.metadata.annotations.note }}: 2",
			map[string]any{"alpha": int64(1), "a: b # c": int64(2)}},
		"toYaml": {"a: {{- toYaml .Cluster.spec.controlPlaneEndpoint | nindent 2 }}",
			map[string]any{"a": map[string]any{"host": "10.0.0.1", "port": int64(6443)}}},
		"toYaml in a variable": {"{{ $x := toYaml .Cluster.spec.clusterNetwork.pods.cidrBlocks }}a:\n{{ $x | indent 2 }}",
			map[string]any{"a": cidrs}},
		"toYaml of a string with lines": {
			"a:\n  b:\n    c: {{ toYaml .Cluster.metadata.labels.evil }}\n",
			map[string]any{"a": map[string]any{"b": map[string]any{"c": "x\nreplicas: 7"}}},
		},
		"toYaml of labels": {"{{ toYaml (pick .Cluster.metadata.labels \"evil\" \"version\") }}",
			map[string]any{"evil": "x\nreplicas: 7", "version": "1.10"}},
		"toJson": {"a: {{ toJson .Cluster.spec.clusterNetwork.pods.cidrBlocks }}", map[string]any{"a": cidrs}},
		"toJson, trimmed": {"a: {{ toJson .Cluster.spec.clusterNetwork.pods.cidrBlocks | trim }}",
			map[string]any{"a": cidrs}},
		"toJson compared": {"a: {{ eq (toJson .ControlPlane.spec.replicas) \"3\" }}", map[string]any{"a": true}},
		"toYaml and back": {"a: {{ (toYaml .Cluster.metadata.labels | fromYaml).evil }}",
			map[string]any{"a": "x\nreplicas: 7"}},
		"toYaml as text": {"a: {{ toYaml .Cluster.spec.controlPlaneEndpoint | sha256sum | trunc 8 }}",
			map[string]any{"a": "0f216c62"}},
		"part of markup": {"a: {{ toJson .Cluster.metadata.name | trimAll \"\\\"\" }}", map[string]any{"a": "alpha"}},
		"quote": {"a: {{ quote .Cluster.metadata.labels.version }}\nb: {{ .ControlPlane.spec.replicas | quote }}",
			map[string]any{"a": "1.10", "b": "3"}},
		"squote":            {"a: {{ squote .Cluster.metadata.labels.evil }}", map[string]any{"a": "x\nreplicas: 7"}},
		"quote within text": {"a: {{ printf \"%s-%d\" .Cluster.metadata.name 1 | quote }}", map[string]any{"a": "alpha-1"}},
		"if, with, else":    {"{{ with .ClusterClass }}a: 1{{ else }}a: 2{{ end }}", map[string]any{"a": int64(2)}},
		"define": {"{{ define \"x\" }}{{ . }}{{ end }}a: {{ template \"x\" .Cluster.metadata.name }}",
			map[string]any{"a": "alpha"}},
		"YAML 1.1 booleans": {"a: yes\nb: off\nc: \"yes\"", map[string]any{"a": true, "b": false, "c": "yes"}},
		"date and octal": {"a: 2024-01-02\nb: 0x10\nc: !!str 5",
			map[string]any{"a": "2024-01-02", "b": int64(16), "c": "5"}},
		"anchor and merge": {"x: &x {p: 1, q: 2}\ny: {<<: *x, q: 3}",
			map[string]any{"x": map[string]any{"p": int64(1), "q": int64(2)},
				"y": map[string]any{"p": int64(1), "q": int64(3)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.ValuesTemplate = tc.template
			if got := mustRender(t, spec, sample()).Values; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %#v, want %#v", got, tc.want)
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	spec := base()
	spec.ValuesFrom = []ValuesSource{
		{Origin: "ConfigMap a key values.yaml",
			Data: []byte("one: 1\nlist: [1, 2, 3]\nmap: {a: 1, b: 1, c: 1, d: 1}\ndrop: {x: 1}\ntext: '{{ .Cluster }}'")},
		{Origin: "Secret b key values.yaml", Data: []byte("map: {b: 2, c: 2, d: 2}\nfrom: secret")},
	}
	spec.Values = []byte(`{"map": {"c": 3, "d": 3}, "list": ["{{ .ControlPlane.spec.replicas }}"], "drop": null, "back": null}`)
	spec.ValuesTemplate = "map: {d: 4}\nback: {again: {{ .Cluster.metadata.name }}}"
	want := map[string]any{
		"one": int64(1), "list": []any{int64(3)}, "from": "secret", "text": "{{ .Cluster }}",
		"map":  map[string]any{"a": int64(1), "b": int64(2), "c": int64(3), "d": int64(4)},
		"drop": nil, "back": map[string]any{"again": "alpha"},
	}
	p, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second rendering shows that the first one stored nothing
		result, err := p.Render(t.Context(), sample())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(result.Values, want) {
			t.Errorf("got %#v, want %#v", result.Values, want)
		}
		result.Values["map"].(map[string]any)["a"] = "changed by the caller"
	}
}

func TestNoValues(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", " ", "null", "{}"} {
		spec := base()
		spec.Values = []byte(values)
		result := mustRender(t, spec, sample())
		if result.Values == nil || len(result.Values) != 0 {
			t.Errorf("%q: got %#v, want an empty map", values, result.Values)
		}
		// This is the SHA-256 of "{}".
		if want := "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; result.Digest != want {
			t.Errorf("%q: digest %s, want %s", values, result.Digest, want)
		}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		name, namespace string
		want            Release
		wantErr         string
	}{
		"literal": {"calico", "tigera-operator", Release{"calico", "tigera-operator"}, ""},
		"template": {"cni-{{ .Cluster.metadata.name }}", "{{ .Cluster.metadata.namespace }}",
			Release{"cni-alpha", "fleet"}, ""},
		"dots":         {"a.b", "x", Release{"a.b", "x"}, ""},
		"space around": {"\n{{ .Cluster.metadata.name }}\n", "x ", Release{"alpha", "x"}, ""},
		"long": {"{{ repeat 54 \"a\" }}", "x", Release{},
			"spec.release.name: yields a name of 54 characters, at most 53 are possible"},
		"upper case": {"{{ upper .Cluster.metadata.name }}", "x", Release{},
			"spec.release.name: yields a name that is not lower case"},
		"empty":          {"{{ if false }}x{{ end }}", "x", Release{}, "spec.release.name: yields an empty name"},
		"not given":      {"", "x", Release{}, "spec.release.name: is empty"},
		"namespace dots": {"x", "a.b", Release{}, "spec.release.namespace: yields a namespace that is not lower case"},
		"namespace long": {"x", "{{ repeat 64 \"a\" }}", Release{},
			"spec.release.namespace: yields a namespace of 64 characters"},
		"namespace empty": {"x", "{{ print \"\" }}", Release{}, "spec.release.namespace: yields an empty namespace"},
		"reads itself": {"{{ .Release.Name }}", "x", Release{},
			`spec.release.name line 1: no key "Release" in .Release.Name`},
		"secret in a name": {"{{ .Cluster.metadata.labels.secret }}_", "x", Release{},
			"spec.release.name: yields a name that is not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(Spec{ReleaseName: tc.name, ReleaseNamespace: tc.namespace})
			var got Release
			if err == nil {
				got, err = p.RenderRelease(t.Context(), sample())
			}
			checkError(t, err, tc.wantErr)
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// checkError checks that err contains the text want, or that err is nil if want is empty. It also checks that err does
// not contain the secret.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("no error, want %q", want)
	case err == nil:
	case want == "":
		t.Errorf("unexpected error: %v", err)
	case !strings.Contains(err.Error(), want):
		t.Errorf("error %q, want %q in it", err, want)
	case strings.Contains(err.Error(), secret):
		t.Errorf("error %q gives away data", err)
	}
}
