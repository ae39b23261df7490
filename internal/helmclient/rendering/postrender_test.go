// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const deploymentText = `# Source: demo/templates/web.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web # the name
  labels: {app: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    spec:
      initContainers:
      - {name: init, image: "registry.example.com/tools/init:1"}
      containers:
      - name: web
        image: nginx:1.27@sha256:0123
        env:
        - {name: A, value: "1"}
        - {name: B, value: "2"}`

const serviceText = `# Source: demo/templates/service.yaml
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  # This comment must stay.
  ports: [{port: 80}]`

const roleText = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: web`

func manifestOf(documents ...string) string {
	return "---\n" + strings.Join(documents, "\n---\n") + "\n"
}

func mustRender(t *testing.T, p PostRender, manifest string) string {
	t.Helper()
	out, err := postRendered(p, manifest)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func postRendered(p PostRender, manifest string) (string, error) {
	renderer, err := newPostRenderer(&p, "apps")
	if err != nil {
		return "", err
	}
	out, err := renderer.run([]byte(manifest))
	return string(out), err
}

func TestPostRendererWithoutChanges(t *testing.T) {
	t.Parallel()
	for _, p := range []*PostRender{nil, {}, {Labels: map[string]string{}}} {
		renderer, err := NewRenderer(nil).PostRenderer(t.Context(), p, "apps", Source{})
		if err != nil || renderer != nil {
			t.Errorf("%+v: %v, %v", p, renderer, err)
		}
	}
}

func TestPostRenderChanges(t *testing.T) {
	t.Parallel()
	all := manifestOf(deploymentText, serviceText, roleText)
	deployment := &inventory.Selector{Kind: "Deployment"}
	tests := map[string]struct {
		change     PostRender
		manifest   string
		want       []string
		wantAbsent []string
	}{
		"strategic merge by name": {
			change: PostRender{Patches: []Patch{{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " +
				"web}\nspec:\n  replicas: 3\n  template:\n    spec:\n      containers:\n      - name: web\n        env: [{name: " +
				"B, value: \"3\"}]\n"}}},
			want:       []string{"replicas: 3", "value: \"1\"", "value: \"3\"", "nginx:1.27@sha256:0123"},
			wantAbsent: []string{"value: \"2\""},
		},
		"strategic merge by target keeps the name": {
			change: PostRender{Patches: []Patch{{Target: deployment,
				Patch: "kind: Other\nmetadata: {name: other}\nspec: {replicas: 3}\n"}}},
			want: []string{"replicas: 3", "kind: Deployment", "name: web"}, wantAbsent: []string{"other", "Other"},
		},
		"several documents": {
			change: PostRender{Patches: []Patch{{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: " +
				"{replicas: 3}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: NodePort}\n"}}},
			want: []string{"replicas: 3", "type: NodePort"},
		},
		"deletion": {
			change: PostRender{Patches: []Patch{{Patch: "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n$patch: delete\n"}}},
			want:   []string{"kind: Deployment", "kind: ClusterRole"}, wantAbsent: []string{"kind: Service"},
		},
		"JSON patch": {
			change: PostRender{Patches: []Patch{{Target: deployment,
				Patch: "- {op: add, path: /spec/replicas, value: 3}\n- {op: remove, path: /metadata/labels/app}\n"}}},
			want: []string{"replicas: 3", "labels: {}"},
		},
		"one after the other": {
			change: PostRender{Patches: []Patch{{Target: deployment, Patch: "spec: {replicas: 3}"},
				{Target: deployment,
					Patch: `[{"op":"test","path":"/spec/replicas","value":3},{"op":"replace","path":"/spec/replicas","value":4}]`}}},
			want: []string{"replicas: 4"},
		},
		"target by namespace of the release": {
			change: PostRender{Patches: []Patch{{Target: &inventory.Selector{Namespace: "apps", Name: "w.b"},
				Patch: "metadata: {annotations: {here: yes}}"}}},
			want: []string{"name: web\nspec:"}, wantAbsent: nil,
		},
		"target by namespace of the release, of an object without one": {
			change: PostRender{Patches: []Patch{{Target: &inventory.Selector{Kind: "ClusterRole", Namespace: "apps"},
				Patch: "metadata: {labels: {here: in}}"}}},
			want: []string{"here: in"},
		},
		"labels and annotations": {
			change: PostRender{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "1"}},
			want:   []string{"team: a", "note: \"1\"", "app: web", "matchLabels:\n      app: web\n  template"},
		},
		"labels and annotations without a value": {
			manifest: manifestOf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  labels:\n  annotations:"),
			change:   PostRender{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "1"}},
			want:     []string{"labels:\n    team: a\n", "annotations:\n    note: \"1\"\n"},
		},
		"images": {
			change: PostRender{Images: []ImageOverride{{Name: "nginx", NewTag: "1.28"},
				{Name: "registry.example.com/tools/init", NewName: "mirror/init", Digest: "sha256:ff"}}},
			want: []string{"image: nginx:1.28\n", "image: mirror/init@sha256:ff"}, wantAbsent: []string{"0123"},
		},
		"image of a malformed name": {
			change: PostRender{Images: []ImageOverride{{Name: "\xff", NewTag: "1.28"}, {NewName: "x"}}},
			want:   []string{"image: nginx:1.27@sha256:0123"},
		},
		"image with braces in its tag, or in no container": {
			manifest: manifestOf("kind: Job\ncontainers: [{image: 'nginx:{X}'}, {image: 'nginx:a/b'}, {image: 1}, " +
				"nginx]\nimage: nginx\n"),
			change: PostRender{Images: []ImageOverride{{Name: "nginx", NewName: "$1", NewTag: "$2", Digest: "sha256:0"}}},
			want: []string{"- image: $1:$2@sha256:0\n", "- image: nginx:a/b\n", "- image: 1\n", "- nginx\n",
				"\nimage: nginx\n"},
		},
		"image of another name": {
			change: PostRender{Images: []ImageOverride{{Name: "ngin.", NewTag: "1.28"}, {Name: "inx", NewName: "x"},
				{Name: "(", NewName: "x"}}},
			want: []string{"image: nginx:1.27@sha256:0123"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.manifest == "" {
				test.manifest = all
			}
			got := mustRender(t, test.change, test.manifest)
			for _, part := range test.want {
				if !strings.Contains(got, part) {
					t.Errorf("lacks %q:\n%s", part, got)
				}
			}
			for _, part := range test.wantAbsent {
				if strings.Contains(got, part) {
					t.Errorf("has %q:\n%s", part, got)
				}
			}
		})
	}
}

// TestPostRenderKeepsValues checks that a change of one field keeps the values of the other fields, for each kind of
// change.
func TestPostRenderKeepsValues(t *testing.T) {
	t.Parallel()
	const object = `apiVersion: example.com/v1
kind: Example
data: {million: 1e6, large: 9007199254740993, octal: 0777, answer: yes, text: "1e6", time: 12:30, twice: 1, twice: 2}
anchor: &anchor {a: b}
alias: *anchor
merged: {<<: *anchor, c: d}
items: [{metadata: {name: one}}]`
	all := &inventory.Selector{}
	jsonPatch := Patch{Target: all, Patch: "[{op: add, path: /metadata, value: {labels: {team: a}}}]"}
	for name, change := range map[string]PostRender{
		"metadata":        {Labels: map[string]string{"team": "a"}},
		"JSON patch":      {Patches: []Patch{jsonPatch}},
		"strategic merge": {Patches: []Patch{{Target: all, Patch: "metadata: {labels: {team: a}}"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const want = `---
alias:
  a: b
anchor:
  a: b
apiVersion: example.com/v1
data:
  answer: true
  large: 9007199254740993
  million: 1000000
  octal: 511
  text: "1e6"
  time: "12:30"
  twice: 2
items:
- metadata:
    name: one
kind: Example
merged:
  a: b
  c: d
metadata:
  labels:
    team: a
`
			if got := mustRender(t, change, manifestOf(object)); got != want {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

// TestPostRenderKeepsOtherObjects checks that objects without a matching patch keep their exact text and their place.
func TestPostRenderKeepsOtherObjects(t *testing.T) {
	t.Parallel()
	odd := "# only a comment"
	duplicate := strings.Replace(configMap("same", "1"), "name: same", "name: same\n  namespace: one", 1)
	manifest := manifestOf(serviceText, odd, "", deploymentText, strings.TrimSpace(duplicate),
		strings.TrimSpace(duplicate), roleText)
	got := mustRender(t, PostRender{Patches: []Patch{{Target: &inventory.Selector{Kind: "Deployment"},
		Patch: "spec: {replicas: 3}"}}}, manifest)
	var at int
	for _, part := range []string{serviceText, "# Source: demo/templates/web.yaml", "replicas: 3",
		strings.TrimSpace(duplicate), strings.TrimSpace(duplicate), roleText} {
		next := strings.Index(got[at:], part)
		if next < 0 {
			t.Fatalf("%q is not in its place:\n%s", part, got)
		}
		at += next + len(part)
	}
	if n := strings.Count(got, "\nkind:"); n != 5 {
		t.Errorf("%d objects:\n%s", n, got)
	}
}

func TestPostRenderLists(t *testing.T) {
	t.Parallel()
	list := "# Source: demo/templates/list.yaml\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: " +
		"ConfigMap, metadata: {name: one}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}"
	got := mustRender(t,
		PostRender{Patches: []Patch{{Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata: {key: x}"}}},
		manifestOf(list))
	if strings.Count(got, "kind: ConfigMap") != 2 || strings.Contains(got, "kind: List") ||
		strings.Count(got, "key: x") != 1 {
		t.Error(got)
	}
}

// TestPostRenderImagesSkipCRDs checks that images are not replaced in the schemas of CRDs, and that patches can change
// CRDs.
func TestPostRenderImagesSkipCRDs(t *testing.T) {
	t.Parallel()
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " +
		"widgets.example.com\nspec:\n" +
		"  x: {containers: [{image: nginx}]}\n"
	got := mustRender(t, PostRender{Images: []ImageOverride{{Name: "nginx", NewTag: "2"}},
		Labels: map[string]string{"team": "a"}}, manifestOf(crd))
	if strings.Contains(got, "nginx:2") || !strings.Contains(got, "team: a") {
		t.Error(got)
	}
}

func TestPostRenderErrors(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-in-a-patch"
	deployment := &inventory.Selector{Kind: "Deployment"}
	var doubling strings.Builder
	doubling.WriteString(`[{"op":"add","path":"/metadata/annotations","value":{"a":"` + strings.Repeat("x", 1000) + `"}}`)
	for i := range 40 {
		fmt.Fprintf(&doubling, `,{"op":"copy","from":"/metadata","path":"/metadata/m%d"}`, i)
	}
	doubling.WriteString("]")
	tests := map[string]struct {
		patch Patch
		want  string
	}{
		"no object of the name": {Patch{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: gone}\nspec: " +
			"{secret: " + secret + "}"}, `patch 1 (Deployment "gone" of apps/v1): the patch matches no object`},
		"no object of the group": {Patch{Patch: "apiVersion: apps/v2\nkind: Deployment\nmetadata: {name: web}"},
			"the patch matches no object"},
		"other namespace": {Patch{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: " +
			"other}"}, "the patch matches no object"},
		"target of nothing": {Patch{Patch: "spec: {}", Target: &inventory.Selector{Kind: "Dep"}},
			"patch 1 (kind Dep): the patch matches no object"},
		"target is malformed":   {Patch{Patch: "spec: {}", Target: &inventory.Selector{Name: "("}}, "patch 1: target: name"},
		"unnamed":               {Patch{Patch: "spec: {secret: " + secret + "}"}, "a patch without a target must have"},
		"JSON patch, no target": {Patch{Patch: `[{"op":"remove","path":"/spec"}]`}, "needs a target"},
		"JSON patch, bad op": {Patch{Patch: `[{"op":"delete","path":"/spec"}]`, Target: deployment},
			"the list is not a JSON patch"},
		"JSON patch, no path": {Patch{Patch: `[{"op":"remove"}]`, Target: deployment}, "the list is not a JSON patch"},
		"JSON patch, no op":   {Patch{Patch: `[{"path":"/spec"}]`, Target: deployment}, "the list is not a JSON patch"},
		"JSON patch, odd op":  {Patch{Patch: `[1]`, Target: deployment}, "not a JSON patch"},
		"JSON patch, no such": {Patch{Patch: `[{"op":"remove","path":"/spec/gone"}]`, Target: deployment},
			`patch 1 (kind Deployment): Deployment "web": `},
		"JSON patch, far index": {Patch{Patch: `[{"op":"add","path":"/spec/template/spec/containers/99","value":"` + secret +
			`"}]`, Target: deployment}, `Deployment "web": `},
		"JSON patch, no value": {Patch{Patch: `[{"op":"add","path":"/spec/x"}]`, Target: deployment}, ""},
		"JSON patch, no object": {Patch{Patch: `[{"op":"replace","path":"","value":3}]`, Target: deployment},
			`Deployment "web": `},
		"JSON patch, bomb": {Patch{Patch: doubling.String(), Target: deployment}, `Deployment "web": `},
		"no YAML":          {Patch{Patch: "a: b: " + secret, Target: deployment}, "the patch is not valid YAML"},
		"a scalar":         {Patch{Patch: secret, Target: deployment}, "the patch is neither"},
		"a path":           {Patch{Patch: "/etc/passwd", Target: deployment}, "the patch is neither"},
		"an address": {Patch{Patch: "https://example.com/patch.yaml", Target: deployment},
			"the patch is neither"},
		"empty":                  {Patch{Patch: "---\n# nothing", Target: deployment}, "the patch is empty"},
		"documents and a target": {Patch{Patch: "spec: {}\n---\nspec: {}", Target: deployment}, "one document"},
		"aliases":                {Patch{Patch: aliasBomb(), Target: deployment}, "aliases expanded"},
		"UTF-16":                 {Patch{Patch: "\xff\xfea\x00:\x00 \x00b\x00", Target: deployment}, "it is not UTF-8 text"},
		"tag directive":          {Patch{Patch: "%TAG ! tag:x,\r---\r!a {}", Target: deployment}, "has a %TAG directive"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := postRendered(PostRender{Patches: []Patch{test.patch}}, manifestOf(deploymentText))
			if test.want == "" && err == nil {
				return
			}
			if !errors.Is(err, ErrPostRender) || !strings.Contains(err.Error(), test.want) ||
				strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func aliasBomb() string {
	text := "a0: &a0 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
	for i := 1; i < 10; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text
}

// TestPostRenderIgnoresKustomizeDirectives checks that directives of kustomize in patches are plain data.
func TestPostRenderIgnoresKustomizeDirectives(t *testing.T) {
	t.Parallel()
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: odd\n  annotations:\n    " +
		"config.kubernetes.io/local-config: \"true\"\n    config.kubernetes.io/function: \"exec: {path: /bin/false}\""
	kustomization := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: " +
		"k}\nresources: [https://example.com/x, /etc]"
	got := mustRender(t, PostRender{Labels: map[string]string{"team": "a"}}, manifestOf(object, kustomization))
	if strings.Count(got, "team: a") != 2 || !strings.Contains(got, "/bin/false") ||
		!strings.Contains(got, "https://example.com/x") {
		t.Error(got)
	}
}

func FuzzPostRender(f *testing.F) {
	f.Add("spec: {replicas: 3}", deploymentText, "nginx")
	f.Add(`[{"op":"add","path":"/spec/x","value":1}]`, serviceText, "")
	f.Add("spec: {template: {spec: {containers: {name: x}}}}", deploymentText, "(")
	f.Fuzz(func(t *testing.T, patchText, manifest, image string) {
		for _, target := range []*inventory.Selector{nil, {}} {
			_, err := postRendered(PostRender{
				Patches: []Patch{{Patch: patchText, Target: target}},
				Images:  []ImageOverride{{Name: image, NewTag: "y"}},
				Labels:  map[string]string{"a": "b"},
			}, manifest)
			if err != nil && !errors.Is(err, ErrPostRender) {
				t.Error(err)
			}
		}
	})
}

// BenchmarkPostRender measures the post-rendering of 1,000 objects: metadata and images only, and one patch for all
// objects.
func BenchmarkPostRender(b *testing.B) {
	documents := make([]string, 1000)
	for i := range documents {
		documents[i] = strings.Replace(deploymentText, "name: web #", fmt.Sprintf("name: web-%d #", i), 1)
	}
	manifest := manifestOf(documents...)
	for name, change := range map[string]PostRender{
		"metadata": {Labels: map[string]string{"team": "a"}, Images: []ImageOverride{{Name: "nginx", NewTag: "2"}}},
		"merge":    {Patches: []Patch{{Target: &inventory.Selector{Kind: "Deployment"}, Patch: "spec: {replicas: 3}"}}},
		"json": {Patches: []Patch{{Target: &inventory.Selector{Kind: "Deployment"},
			Patch: `[{"op":"add","path":"/spec/replicas","value":3}]`}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(manifest)))
			for b.Loop() {
				if _, err := postRendered(change, manifest); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
