// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func TestKustomize(t *testing.T) {
	t.Parallel()
	base := map[string]string{
		"base/kustomization.yaml": "resources: [cm.yaml, crd.yaml]\nconfigMapGenerator:\n- {name: made, files: [a=x.txt], " +
			"envs: [x.env], options: {disableNameSuffixHash: true}}\n",
		"base/cm.yaml": configMap("a"), "base/crd.yaml": crdText, "base/x.txt": "{{ text }}",
		"base/x.env": "E=1\n",
		"prod/kustomization.yml": "namespace: prod\nnamePrefix: p-\nresources: [../base, extra]\ncomponents: [../part]\n" +
			"patches:\n- target: {kind: ConfigMap}\n  patch: |\n    - {op: add, path: /metadata/labels, value: {l: \"1\"}}\n",
		"prod/extra/Kustomization": "resources: [more.json]\n",
		"prod/extra/more.json":     `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"more"}}`,
		"part/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: " +
			"Component\npatchesStrategicMerge:\n- patch.yaml\n- |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: " +
			"a}\n  data: {inline: x}\n",
		"part/patch.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {patched: x}\n",
		"plain/b.yaml":    configMap("b"),
	}
	t.Run("an overlay", func(t *testing.T) {
		t.Parallel()
		c := mustLoad(t, withPath(flux(t, base), "prod"))
		want := []string{"crds/CustomResourceDefinition.apiextensions.k8s.io_dishes.kitchen.test.yaml",
			"templates/ConfigMap_prod_p-a.yaml", "templates/ConfigMap_prod_p-made.yaml", "templates/ConfigMap_prod_p-more.yaml"}
		got := filesOfChart(c)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("files = %q, want %q", got, want)
		}
		objects := rendered(t, c, nil)
		made, a := objects["p-made"].(map[string]any), objects["p-a"].(map[string]any)
		if fmt.Sprint(made["data"]) != "map[E:1 a:{{ text }} patched:x]" || fmt.Sprint(a["data"]) != "map[from:a inline:x]" ||
			fmt.Sprint(a["metadata"]) != "map[labels:map[l:1] name:p-a namespace:prod]" {
			t.Errorf("made = %v\na = %v", made, a)
		}
	})
	t.Run("folders side by side", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"a/kustomization.yaml": "namePrefix: x-\nresources: [cm.yaml]\n",
			"a/cm.yaml": configMap("a"), "b/c.yaml": configMap("c")}
		if got, want := filesOfChart(mustLoad(t, flux(t, files))),
			[]string{"templates/ConfigMap_x-a.yaml", "templates/ConfigMap_c.yaml"}; !slices.Equal(got, want) {
			t.Errorf("files = %q, want %q", got, want)
		}
	})
	t.Run("with templates", func(t *testing.T) {
		t.Parallel()
		src := flux(t, map[string]string{"kustomization.yaml": "resources: [cm.yaml]\n",
			"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '{{ .Values.x }}'}\n"})
		src.Templates = true
		if got := fmt.Sprint(rendered(t, mustLoad(t, src),
			map[string]any{"x": 7})["a"].(map[string]any)["data"]); got != "map[x:7]" {
			t.Errorf("data = %s", got)
		}
	})
}

// TestKustomizeFetchesNothing sets every field that can have a reference to the name of a server. The server must get
// no request for any form of the name, even if the artifact has a file or folder with this name.
func TestKustomizeFetchesNothing(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(configMap("fetched")))
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	var names []string
	for _, form := range []string{"http://%s/x", "HTTP://%s/x", "https://%s/x", "http://%s/org/repo.git?ref=x",
		"git::http://%s/org/repo", "git@%s:org/repo", "ssh://git@%s/org/repo", "file:///%s",
		"http://%s/org/repo//sub", "//%s/x"} {
		names = append(names, fmt.Sprintf(form, host))
	}
	names = append(names, "github.com/org/repo", "GitHub.com/org/repo", "github.com:org/repo",
		"git@github.com:org/repo.git")
	for field, text := range map[string]string{
		"resources": "resources: [%q]", "bases": "bases: [%q]", "components": "components: [%q]", "crds": "crds: [%q]",
		"configurations":        "configurations: [%q]",
		"patches":               "patches: [{path: %q, target: {kind: ConfigMap}}]",
		"patchesStrategicMerge": "patchesStrategicMerge: [%q]",
		"patchesJson6902":       "patchesJson6902: [{path: %q, target: {version: v1, kind: ConfigMap, name: a}}]",
		"replacements":          "replacements: [{path: %q}]", "files": "configMapGenerator: [{name: x, files: [%q]}]",
		"files with a key": "configMapGenerator: [{name: x, files: ['k=%s']}]",
		"envs":             "configMapGenerator: [{name: x, envs: [%q]}]", "env": "configMapGenerator: [{name: x, env: %q}]",
		"secret files": "secretGenerator: [{name: x, files: [%q]}]",
		"secret envs":  "secretGenerator: [{name: x, envs: [%q]}]", "openapi": "openapi: {path: %q}",
		"generators": "generators: [%q]", "transformers": "transformers: [%q]",
		"validators": "validators: [%q]", "helmCharts": "helmCharts: [{name: x, repo: %q}]",
		"helmCharts values":           "helmCharts: [{name: x, valuesFile: %q}]",
		"helmChartInflationGenerator": "helmChartInflationGenerator: [{chartName: x, chartRepoUrl: %q}]",
		"RESOURCES":                   "RESOURCES: [%q]", "other case": "Components: [%q]",
		"inline transformer": "transformers:\n- |\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: " +
			"x}\n  path: %q\n",
		"inline generator": "generators:\n- |\n  apiVersion: builtin\n  kind: HelmChartInflationGenerator\n  metadata: " +
			"{name: x}\n  name: x\n  repo: %q\n",
	} {
		t.Run(field, func(t *testing.T) {
			for _, name := range names {
				kustomization := fmt.Sprintf(text, name) + "\n"
				if !strings.Contains(strings.ToLower(kustomization), "resources:") {
					kustomization += "resources: [cm.yaml]\n"
				}
				entries := []entry{{name: "kustomization.yaml", data: kustomization}, {name: "cm.yaml", data: configMap("a")}}
				// A file of the artifact with such a name does not cause a request to another host.
				for _, decoy := range []string{name, name + "/kustomization.yaml"} {
					with := append(slices.Clone(entries), entry{name: decoy, data: "resources: []\n"})
					for _, all := range [][]entry{entries, with} {
						src := artifact(Manifest{Layers: typed(FluxLayerMediaType)}, pack(t, all...))
						if _, err := newLoader(t, Limits{}).Chart(t.Context(), src); !errors.Is(err, ErrInvalidManifests) {
							t.Errorf("%s: error = %v", name, err)
						}
					}
				}
			}
		})
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestKustomizeRefused(t *testing.T) {
	t.Parallel()
	doubling := map[string]string{"0/kustomization.yaml": "resources: [cm.yaml]\n", "0/cm.yaml": configMap("a")}
	for i := 1; i <= 30; i++ {
		for _, side := range []string{"l", "r"} {
			doubling[fmt.Sprintf("%d%s/kustomization.yaml", i, side)] = fmt.Sprintf("namePrefix: %s-\nresources: [../%d]\n",
				side, i-1)
		}
		doubling[fmt.Sprintf("%d/kustomization.yaml", i)] = fmt.Sprintf("resources: [../%dl, ../%dr]\n", i, i)
	}
	many := ""
	for i := range 200 {
		many += configMap(fmt.Sprint("x", i)) + "---\n"
	}
	for name, tc := range map[string]struct {
		files  map[string]string
		path   string
		kind   error
		detail string
	}{
		"replacements": {files: map[string]string{"kustomization.yaml": "replacements: [{source: {kind: X}, targets: []}]\n"},
			detail: "has replacements, which HelmOp does not support"},
		"vars": {files: map[string]string{"kustomization.yaml": "vars: [{name: X, objref: {kind: X, name: x}}]\n"},
			detail: "has vars"},
		"openapi": {files: map[string]string{"kustomization.yaml": "openapi: {version: v1.21.2}\n"},
			detail: "has openapi"},
		"copy": {files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: " +
			"X}, patch: '[{\"op\": \"co\\u0070y\", \"from\": \"/a\", \"path\": \"/b\"}]'}]\n", "a.yaml": configMap("a")},
			detail: `"copy"`},
		"copy beside what YAML does not take": {files: map[string]string{"a.yaml": configMap("a"),
			"kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: X}, path: p}]\n",
			"p":                  `[{"op": "add", "path": "/x", "value": "\ud83d\ude00"}, {"op": "copy", "from": "/a", "path": "/b"}]`}, detail: `"copy"`},
		"a patch in brackets that is no JSON": {files: map[string]string{"a.yaml": configMap("a"),
			"kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: X}, path: p}]\n", "p": "[{op: add}]"},
			detail: "cannot be read"},
		"copy in a file": {files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: " +
			"[{target: {kind: X}, path: p}]\n", "a.yaml": configMap("a"), "p": "- {op: copy, from: /a, path: /b}\n"},
			detail: `"copy"`},
		"a cycle": {files: map[string]string{"kustomization.yaml": "resources: [x]\n",
			"x/kustomization.yaml": "resources: [../../y, ..]\n"}, path: "x", detail: "not a file or folder of the artifact"},
		"a closed cycle": {files: map[string]string{"a/kustomization.yaml": "resources: [../b]\n",
			"b/kustomization.yaml": "resources: [../a]\n"}, path: "a", detail: "contains itself"},
		"leads out": {files: map[string]string{"a/kustomization.yaml": "resources: [../../x.yaml]\n"}, path: "a",
			detail: "not a file or folder of the artifact"},
		"two of them": {files: map[string]string{"kustomization.yaml": "", "kustomization.yml": ""},
			detail: "2 kustomization files"},
		"no kustomization there": {files: map[string]string{"kustomization.yaml": "resources: [x]\n",
			"x/a.yaml": configMap("a")}, detail: "0 kustomization files"},
		"not known": {files: map[string]string{"kustomization.yaml": "resourcesss: []\n"},
			detail: "is not a kustomization"},
		"not YAML": {files: map[string]string{"kustomization.yaml": "resources: [x.yaml]\n",
			"x.yaml": "a: b\n  c: d"}, detail: "x.yaml:2 is not YAML"},
		"no such file": {files: map[string]string{"kustomization.yaml": "resources: [x.yaml]\n"},
			detail: `names "x.yaml" under resources`},
		"a folder": {files: map[string]string{"kustomization.yaml": "configMapGenerator: [{name: x, files: " +
			"[x]}]\n", "x/a": ""}, detail: "which is a folder; name a file"},
		"a patch for nothing": {files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{patch: " +
			"'{apiVersion: v1, kind: Secret, metadata: {name: x}, data: {x: aGlkZGVu}}'}]\n", "a.yaml": configMap("a")},
			detail: "building the kustomization in"},
		"a file outside of the folder": {files: map[string]string{"a/kustomization.yaml": "resources: [../x.yaml]\n",
			"x.yaml": configMap("a")}, path: "a", detail: "building the kustomization in"},
		"twice": {files: map[string]string{"a/kustomization.yaml": "resources: [x.yaml]\n",
			"a/x.yaml": configMap("x"), "b.yaml": configMap("x")},
			detail: "which is also in object 0 of the kustomization in \"a\""},
		"doubled": {files: doubling, path: "30", kind: ErrTooLarge,
			detail: "multiplied by its 128 objects, have more than"},
		"many patches": {files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: " +
			"[{target: {kind: ConfigMap}, path: p}]\n", "a.yaml": many,
			"p": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {x: " + strings.Repeat("x", 10<<10) + "}\n"},
			kind: ErrTooLarge, detail: "patches"},
		"a bomb in a patch": {files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: " +
			"[{target: {kind: ConfigMap}, path: p}]\n", "a.yaml": configMap("a"), "p": aliasBomb()}, kind: ErrTooLarge,
			detail: "its manifests have more than"},
		"a long prefix": {files: map[string]string{"kustomization.yaml": "namePrefix: " +
			strings.Repeat("x", 300) + "\nresources: [a.yaml]\n", "a.yaml": configMap("a")}, detail: "253"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.kind == nil {
				tc.kind = ErrInvalidManifests
			}
			_, err := newLoader(t, Limits{ManifestBytes: 64 << 10}).Chart(t.Context(), withPath(flux(t, tc.files), tc.path))
			if !errors.Is(err, tc.kind) || !strings.Contains(fmt.Sprint(err), tc.detail) {
				t.Errorf("error = %v, want %v with %q", err, tc.kind, tc.detail)
			}
			if strings.Contains(fmt.Sprint(err), "aGlkZGVu") {
				t.Errorf("error = %v: it quotes a Secret", err)
			}
		})
	}
}

// TestEmptyKustomization checks that an explicitly empty kustomization has no objects, so the existing objects are
// pruned. A kustomization that is empty without this declaration is an error.
func TestEmptyKustomization(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"resources: []\n": "", "kind: Kustomization\nresources: []\n": "",
		"namePrefix: a-\n": "it contains no objects", "resources: [none.yaml]\n": "it contains no objects",
		"resources: [empty]\n": "it contains no objects",
	} {
		files := map[string]string{"kustomization.yaml": text, "none.yaml": "# nothing\n",
			"empty/kustomization.yaml": "namePrefix: a-\n"}
		c, err := newLoader(t, Limits{}).Chart(t.Context(), withPath(flux(t, files), ""))
		if want == "" && (err != nil || len(c.Templates)+len(c.Files) > 0) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
