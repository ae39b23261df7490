// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"strings"
	"testing"
)

// postRendered renders spec.postRender for the sample Cluster.
func postRendered(t *testing.T, postRender string) (Result, error) {
	t.Helper()
	p, err := Compile(Spec{ReleaseName: "app", ReleaseNamespace: "apps", PostRender: []byte(postRender)})
	if err != nil {
		return Result{}, err
	}
	return p.Render(t.Context(), sample())
}

func TestPostRender(t *testing.T) {
	t.Parallel()
	result, err := postRendered(t, `{
		"patches": [
			{"patch": "spec:\n  replicas: {{ .ControlPlane.spec.replicas }}\n  region: '{{ .Cluster.metadata.labels.region }}'", "target": {"kind": "{{ .ControlPlane.kind | trimSuffix \"Plane\" }}"}},
			{"patch": "- op: replace\n  path: /metadata/name\n  value: {{ .Cluster.metadata.labels.evil }}"}
		],
		"images": [{"name": "app", "newTag": "{{ .ControlPlane.spec.version }}"}],
		"commonMetadata": {"labels": {"replicas": "{{ .ControlPlane.spec.replicas }}", "release": "{{ .Release.Name }}"}}
	}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := encodeJSON(result.PostRender)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"commonMetadata":{"labels":{"release":"app","replicas":"3"}},` +
		`"images":[{"name":"app","newTag":"v1.34.0"}],` +
		`"patches":[{"patch":"{\"spec\":{\"region\":\"eu-1\",\"replicas\":3}}","target":{"kind":"KubeadmControl"}},` +
		`{"patch":"[{\"op\":\"replace\",\"path\":\"/metadata/name\",\"value\":\"x\\nreplicas: 7\"}]"}]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if result.PostRenderDigest == "" || result.PostRenderDigest == result.Digest {
		t.Errorf("digests: post-render %q, values %q", result.PostRenderDigest, result.Digest)
	}
}

func TestNoPostRender(t *testing.T) {
	t.Parallel()
	for _, postRender := range []string{"", "null"} {
		result, err := postRendered(t, postRender)
		if err != nil || result.PostRender != nil || result.PostRenderDigest != "" {
			t.Errorf("%q: %v, %q, %v", postRender, result.PostRender, result.PostRenderDigest, err)
		}
	}
}

func TestPostRenderErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ postRender, want string }{
		"template":      {`{"images": [{"name": "{{ .Cluster"}]}`, "spec.postRender.images[0].name"},
		"missing key":   {`{"images": [{"newTag": "{{ .Cluster.spec.nothing }}"}]}`, "nothing"},
		"patch":         {`{"patches": [{"patch": "a: [1"}]}`, "spec.postRender.patches[0].patch"},
		"empty patch":   {`{"patches": [{"patch": "{{ if false }}x{{ end }}"}]}`, "is empty"},
		"two documents": {`{"patches": [{"patch": "a: 1\n---\nb: 2"}]}`, "more than one YAML document"},
		"key":           {`{"commonMetadata": {"labels": {"{{ .Release.Name }}": "x"}}}`, "a key is not a template"},
		"no object":     {`[]`, "is not a map"},
	} {
		_, err := postRendered(t, tc.postRender)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in it", name, err, tc.want)
		}
	}
}
