// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/documents"
)

const (
	imageLayerType = "application/vnd.oci.image.layer.v1.tar+gzip"
	crdText        = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " +
		"dishes.kitchen.test}\n"
	fleetOptions = "defaultNamespace: x\ndiff:\n  comparePatches:\n  - {apiVersion: v1, kind: ConfigMap}\n"
)

// configMap returns the text of a ConfigMap.
func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata: {from: " + name + "}\n"
}

// artifact returns an artifact with the layers of a manifest.
func artifact(m Manifest, data ...[]byte) Source {
	for i := range data {
		m.Layers[i].Size = int64(len(data[i]))
	}
	return Source{
		Manifest: m, Digest: "sha256:0123456789abcdef", Name: "demo",
		ReadLayer: func(_ context.Context, layer int) ([]byte, error) { return data[layer], nil },
	}
}

// flux returns an artifact in the format of Flux. files has the content of the files by name.
func flux(tb testing.TB, files map[string]string) Source {
	tb.Helper()
	return artifact(Manifest{ConfigMediaType: "application/vnd.cncf.flux.config.v1+json",
		Layers: typed(FluxLayerMediaType)}, pack(tb, entriesOf(files)...))
}

func entriesOf(files map[string]string) []entry {
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entries = append(entries, entry{name: name, data: files[name]})
	}
	return entries
}

// plain returns an image with layers.
func plain(tb testing.TB, layers ...[]entry) Source {
	tb.Helper()
	m := Manifest{ConfigMediaType: imageConfigMediaType}
	var data [][]byte
	for _, entries := range layers {
		m.Layers = append(m.Layers, Layer{MediaType: imageLayerType})
		data = append(data, pack(tb, entries...))
	}
	return artifact(m, data...)
}

// fleetResource is a file in a list of Fleet.
type fleetResource struct {
	Name     string `json:"name"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
}

// fleet returns an artifact in the format of Fleet.
func fleet(tb testing.TB, resources ...fleetResource) Source {
	tb.Helper()
	data, err := json.Marshal(map[string]any{"commit": map[string]any{"a": []int{1}}, "resources": resources})
	if err != nil {
		tb.Fatal(err)
	}
	return artifact(Manifest{ArtifactType: FleetArtifactType, Layers: typed(FleetLayerMediaType)}, data)
}

func filesOfChart(c *chart.Chart) []string {
	var names []string
	for _, file := range slices.Concat(c.Files, c.Templates) {
		names = append(names, file.Name)
	}
	return names
}

// rendered returns the objects that Helm renders from a chart, by name.
func rendered(tb testing.TB, c *chart.Chart, values map[string]any) map[string]any {
	tb.Helper()
	top, err := chartutil.ToRenderValues(c, values,
		chartutil.ReleaseOptions{Name: "r", Namespace: "n", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	files, err := engine.Render(c, top)
	if err != nil {
		tb.Fatal(err)
	}
	objects := map[string]any{}
	for name, text := range files {
		for _, document := range releaseutil.SplitManifests(text) {
			var value map[string]any
			if err := yaml.Unmarshal([]byte(document), &value); err != nil {
				tb.Fatalf("%s: %v\n%s", name, err, document)
			}
			if value == nil {
				continue
			}
			key := value["metadata"].(map[string]any)["name"].(string)
			if objects[key] != nil {
				tb.Errorf("%s is rendered twice", key)
			}
			objects[key] = value
		}
	}
	return objects
}

func mustLoad(tb testing.TB, src Source) *chart.Chart {
	tb.Helper()
	c, err := newLoader(tb, Limits{}).Chart(tb.Context(), src)
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		tb.Fatalf("Helm refuses the chart: %v", err)
	}
	return c
}

func withPath(src Source, path string) Source {
	src.Path = path
	return src
}

func withTemplates(src Source) Source {
	src.Templates = true
	return src
}

func TestFormats(t *testing.T) {
	t.Parallel()
	both := map[string]string{"apps/b.yaml": configMap("b"),
		"apps/a.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "README.md": "# no manifest",
		".github/x.yaml": "no: object"}
	unnamed := artifact(Manifest{Layers: typed("application/x")}, pack(t, entriesOf(both)...))
	unnamed.Format = FormatFlux
	for name, tc := range map[string]struct {
		src  Source
		want []string
	}{
		"flux":                {flux(t, both), []string{"templates/ConfigMap_a.yaml", "templates/ConfigMap_b.yaml"}},
		"flux, by its format": {unnamed, []string{"templates/ConfigMap_a.yaml", "templates/ConfigMap_b.yaml"}},
		"flux, a folder": {withPath(flux(t, map[string]string{"a/x.yaml": configMap("x"), "ab/y.yaml": configMap("y")}),
			"./a/"), []string{"templates/ConfigMap_x.yaml"}},
		"plain": {plain(t, []entry{{name: "bin/sh", data: "x"}, {name: "manifests/", typeflag: tar.TypeDir},
			{name: "manifests/one", data: configMap("a") + "---\n" + configMap("b")}}),
			[]string{"templates/ConfigMap_a.yaml", "templates/ConfigMap_b.yaml"}},
		"files": {artifact(Manifest{ConfigMediaType: "application/vnd.oci.empty.v1+json", Layers: []Layer{
			{MediaType: "application/vnd.oci.image.layer.v1.tar", Title: "b.yml"},
			{MediaType: imageLayerType, Title: "more", IsFolder: true}, {MediaType: "text/markdown", Title: "README.md"},
		}}, []byte(configMap("b")), pack(t, entry{name: "more/", typeflag: tar.TypeDir},
			entry{name: "more/a.yaml", data: configMap("a")}), []byte("#")),
			[]string{"templates/ConfigMap_b.yaml", "templates/ConfigMap_a.yaml"}},
		"fleet": {fleet(t, fleetResource{Name: "a.yaml", Content: configMap("a")},
			fleetResource{Name: "fleet.yaml", Content: "defaultNamespace: x"},
			fleetResource{Name: "sub/b.yaml", Content: base64.StdEncoding.EncodeToString([]byte(configMap("b"))),
				Encoding: "base64"},
			fleetResource{Name: "sub/c.yaml", Content: base64.StdEncoding.EncodeToString(gzipped(t, []byte(configMap("c")))),
				Encoding: "base64+gz"}),
			[]string{"templates/ConfigMap_a.yaml", "templates/ConfigMap_b.yaml", "templates/ConfigMap_c.yaml"}},
		"fleet, options of an overlay": {fleet(t, fleetResource{Name: "a.yaml", Content: configMap("a")},
			fleetResource{Name: "overlays/dev/fleet.yaml", Content: "helm: {}"},
			fleetResource{Name: "fleet.yml", Content: configMap("b")}), []string{"templates/ConfigMap_a.yaml"}},
		"Fleet's options in another file": {flux(t,
			map[string]string{"a.yaml": configMap("a"), "fleet.yaml": fleetOptions, "b/fleet.yml": "# none\n"}),
			[]string{"templates/ConfigMap_a.yaml"}},
		"Fleet's options among files": {artifact(Manifest{Layers: []Layer{{Title: "fleet.yaml"}, {Title: "a.yaml"}}},
			[]byte(fleetOptions), []byte(configMap("a"))),
			[]string{"templates/ConfigMap_a.yaml"}},
		"Fleet's options among templates": {withTemplates(flux(t,
			map[string]string{"a.yaml": "{{ .Values }}", "fleet.yaml": fleetOptions})), []string{"templates/a.yaml"}},
		"objects in a file of their name": {flux(t,
			map[string]string{"fleet.yaml": "---\n" + configMap("a") + "---\n" + configMap("b")}),
			[]string{"templates/ConfigMap_a.yaml", "templates/ConfigMap_b.yaml"}},
		"a template of their name": {withTemplates(flux(t, map[string]string{"fleet.yaml": "{{ .Values }}"})),
			[]string{"templates/fleet.yaml"}},
		"fleet, an overlay that is chosen": {withPath(fleet(t, fleetResource{Name: "base/a.yaml", Content: configMap("a")},
			fleetResource{Name: "overlays/dev/b.yaml", Content: configMap("b")}), "overlays/dev"),
			[]string{"templates/ConfigMap_b.yaml"}},
		"fleet, a kustomization of all": {fleet(t, fleetResource{Name: "Kustomization", Content: "resources: [overlays/a]"},
			fleetResource{Name: "overlays/a/a.yaml", Content: configMap("a")},
			fleetResource{Name: "overlays/a/kustomization.yml", Content: "resources: [a.yaml]"},
			fleetResource{Name: "overlays/README.md"}),
			[]string{"templates/ConfigMap_a.yaml"}},
		"files, with a kustomization": {artifact(Manifest{Layers: []Layer{{Title: "Kustomization"}, {Title: "a.yaml"},
			{Title: "app.conf"}, {}}},
			[]byte("resources: [a.yaml]\ngeneratorOptions: {disableNameSuffixHash: true}\nconfigMapGenerator: [{name: b, "+
				"files: [app.conf]}]"), []byte(configMap("a")), []byte("x"), []byte("y")),
			[]string{"templates/ConfigMap_a.yaml", "templates/ConfigMap_b.yaml"}},
		"CRDs apart": {flux(t, map[string]string{"a.yaml": configMap("a") + "---\n" + crdText}),
			[]string{"crds/CustomResourceDefinition.apiextensions.k8s.io_dishes.kitchen.test.yaml",
				"templates/ConfigMap_a.yaml"}},
		"CRDs alone": {flux(t, map[string]string{"a.yaml": crdText}),
			[]string{"crds/CustomResourceDefinition.apiextensions.k8s.io_dishes.kitchen.test.yaml"}},
		"lists": {flux(t,
			map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: " +
				"{name: a, namespace: x}}\n- {apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, " +
				"metadata: {name: b}}]}\n"}),
			[]string{"templates/ConfigMap_x_a.yaml", "templates/ConfigMap_b.yaml"}},
		"names that are no file names": {flux(t,
			map[string]string{"a.yaml": "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: " +
				"'system:x_y'}}"}),
			[]string{"templates/ClusterRole.rbac.authorization.k8s.io_system~3ax~5fy.yaml"}},
		"more than one document": {flux(t,
			map[string]string{"a.yaml": "# comment\n%YAML 1.1\n--- # first\n" + configMap("a") + "...\n---\n# nothing\n---\n" +
				configMap("b") + "--- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n"}),
			[]string{"templates/ConfigMap_a.yaml", "templates/ConfigMap_b.yaml", "templates/ConfigMap_c.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := filesOfChart(mustLoad(t, tc.src)); !slices.Equal(got, tc.want) {
				t.Errorf("files = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestManifestsRefused(t *testing.T) {
	t.Parallel()
	one := func(text string) Source { return flux(t, map[string]string{"apps/one.yaml": text}) }
	for name, tc := range map[string]struct {
		src    Source
		kind   error
		detail string
	}{
		"no objects": {flux(t, map[string]string{"apps/README.md": "#", "x.yaml": "# nothing\n---\n"}),
			ErrInvalidManifests, `it contains no objects; it has "apps/", "x.yaml"`},
		"nothing":        {flux(t, nil), ErrInvalidManifests, "no folder"},
		"no such folder": {withPath(one(configMap("a")), "prod"), ErrInvalidManifests, `no folder "prod"; it has "apps/"`},
		"a chart below": {flux(t, map[string]string{"a.yaml": configMap("a"), "x/Chart.yaml": chartYAML}),
			ErrInvalidManifests, `"x/Chart.yaml" is a Helm chart`},
		"a chart of Fleet": {fleet(t, fleetResource{Name: "a.yaml", Content: configMap("a")},
			fleetResource{Name: ".chart/0ab/demo/Chart.yaml", Content: chartYAML}),
			ErrInvalidManifests, `".chart/0ab/demo/Chart.yaml" is a Helm chart; push the chart itself`},
		"an overlay of Fleet": {fleet(t, fleetResource{Name: "a.yaml", Content: configMap("a")},
			fleetResource{Name: "overlays/dev/a.yaml", Content: configMap("a")}),
			ErrInvalidManifests, `"overlays/dev/a.yaml" belongs to an overlay`},
		"kustomized overlays of Fleet": {fleet(t,
			fleetResource{Name: "overlays/dev/Kustomization", Content: "resources: [a]"},
			fleetResource{Name: "overlays/dev/a", Content: configMap("a")}),
			ErrInvalidManifests, `"overlays/dev/Kustomization" belongs to an overlay`},
		"a chart": {withPath(flux(t, map[string]string{"x/Chart.yaml": chartYAML}), "x"), ErrInvalidManifests,
			"helm push"},
		"not YAML": {one(configMap("a") + "---\na: b\n  c: d\n"), ErrInvalidManifests,
			`apps/one.yaml:8 is not YAML: mapping values`},
		"not YAML, tab": {one("a:\n\tb: c\n"), ErrInvalidManifests, "apps/one.yaml:2 is not YAML"},
		"not YAML, twice": {one("---\na: b\na: c\n"), ErrInvalidManifests,
			`apps/one.yaml:3 is not YAML: key "a" already`},
		"not JSON": {flux(t, map[string]string{"a.json": "{}\n{\n  \"a\": b\n}"}), ErrInvalidManifests,
			"a.json:1 has no kind"},
		"not JSON at all": {flux(t, map[string]string{"a.json": "\n{\n  \"a\": b\n}"}), ErrInvalidManifests,
			"a.json:3 is not JSON"},
		"JSON that breaks off": {flux(t, map[string]string{"a.json": "\n{\n  \"a\": "}), ErrInvalidManifests,
			"a.json:3 is not complete"},
		"not an object": {one("\n\n- a\n"), ErrInvalidManifests, "apps/one.yaml:3 is not an object"},
		"no kind": {one("apiVersion: v1\nmetadata: {name: a}\n"), ErrInvalidManifests,
			"apps/one.yaml:1 has no kind"},
		"no apiVersion": {one("kind: ConfigMap\nmetadata: {name: a}\n"), ErrInvalidManifests, "no valid apiVersion"},
		"odd apiVersion": {one("apiVersion: a/b/c\nkind: ConfigMap\nmetadata: {name: a}\n"), ErrInvalidManifests,
			"no valid apiVersion"},
		"no name": {one("apiVersion: v1\nkind: ConfigMap\n"), ErrInvalidManifests, "no metadata.name"},
		"generated name": {one("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n"), ErrInvalidManifests,
			"generateName"},
		"twice": {flux(t,
			map[string]string{"a.yaml": configMap("x"), "b.yaml": "# two\n---\n" + configMap("x")}), ErrInvalidManifests,
			`b.yaml:3 has ConfigMap "x", which is also in a.yaml:1`},
		"twice, two versions": {flux(t,
			map[string]string{"a.yaml": "{apiVersion: g/v1, kind: X, metadata: {name: x, namespace: z}}",
				"b.yaml": "{apiVersion: g/v2, kind: X, metadata: {name: x, namespace: z}}"}),
			ErrInvalidManifests, `"z/x", which is also in a.yaml:1`},
		"half an object in fleet.yaml": {flux(t, map[string]string{"fleet.yaml": "apiVersion: v1\nmetadata: {name: a}\n"}),
			ErrInvalidManifests, "fleet.yaml:1 has no kind"},
		"in a list": {one("apiVersion: v1\nkind: List\nitems: [{kind: ConfigMap}]\n"), ErrInvalidManifests,
			"(item 0) has no valid apiVersion"},
		"bomb of aliases": {one(aliasBomb()), ErrTooLarge, "its manifests have more than"},
		"not UTF-8":       {one("a: \xff"), ErrInvalidManifests, "UTF-8"},
		"link": {artifact(Manifest{Layers: typed(FluxLayerMediaType)},
			pack(t, entry{name: "a.yaml", typeflag: tar.TypeSymlink})), ErrInvalidManifests, "link or device"},
		"device": {artifact(Manifest{Layers: typed(FluxLayerMediaType)},
			pack(t, entry{name: "a", typeflag: tar.TypeChar})), ErrInvalidManifests, "link or device"},
		"absolute path": {flux(t, map[string]string{"/a.yaml": "x"}), ErrInvalidManifests, "absolute"},
		"parent path":   {flux(t, map[string]string{"a/../../b.yaml": "x"}), ErrInvalidManifests, "leads out"},
		"entry twice": {flux(t, map[string]string{"a.yaml": "x", "./a.yaml": "x"}), ErrInvalidManifests,
			"twice"},
		"not an archive": {artifact(Manifest{Layers: typed(FluxLayerMediaType)}, []byte("hello")),
			ErrInvalidManifests, "tar archive"},
		"zstd": {artifact(Manifest{Layers: typed(FluxLayerMediaType)}, []byte("\x28\xb5\x2f\xfdxx")),
			ErrInvalidManifests, "zstd"},
		"bomb": {artifact(Manifest{Layers: typed(FluxLayerMediaType)},
			zeros(t, tarHeader(t, "a.yaml", tar.TypeReg, 1<<20), 1<<20)),
			ErrTooLarge, "unpacked"},
		"too large": {artifact(Manifest{Layers: typed(FluxLayerMediaType)}, make([]byte, 80<<10)), ErrTooLarge,
			"packed, it has 65537"},
		"layers too large together": {artifact(Manifest{ConfigMediaType: imageConfigMediaType,
			Layers: typed(imageLayerType, imageLayerType)}, make([]byte, 40<<10), make([]byte, 40<<10)), ErrUnsupported,
			"the image is not a plain bundle: artifact too large: packed, it has 81920"},
		"an image with large programs": {artifact(Manifest{ConfigMediaType: imageConfigMediaType,
			Layers: typed(imageLayerType)}, zeros(t, tarHeader(t, "bin/a", tar.TypeReg, 2<<20), 2<<20)), ErrUnsupported,
			"the image is not a plain bundle: artifact too large: unpacked, it has more than"},
		"a large manifest": {artifact(Manifest{ConfigMediaType: imageConfigMediaType, Layers: typed(imageLayerType)},
			zeros(t, tarHeader(t, "manifests/a.yaml", tar.TypeReg, 2<<20), 2<<20)), ErrTooLarge, "unpacked"},
		"files too many": {flux(t, manyFiles(70)), ErrTooLarge, "files"},
		"manifests too large": {flux(t,
			map[string]string{"a.yaml": configMap("a") + "# " + strings.Repeat("x", 20<<10),
				"b.yaml": configMap("b") + "# " + strings.Repeat("x", 20<<10)}), ErrTooLarge, "manifests have more than"},
		"an image that is none": {plain(t, []entry{{name: "bin/sh"}, {name: "etc/passwd"}}), ErrUnsupported,
			`is not a plain bundle, because it has no folder /manifests; it has "bin", "etc"`},
		"an empty folder": {plain(t, []entry{{name: "manifests/", typeflag: tar.TypeDir}}), ErrInvalidManifests,
			"no object"},
		"a subfolder": {plain(t, []entry{{name: "manifests/sub/a.yaml", data: configMap("a")}}),
			ErrInvalidManifests, `"manifests/sub/a.yaml" is in a subfolder of /manifests`},
		"an empty subfolder": {plain(t,
			[]entry{{name: "manifests/a.yaml", data: configMap("a")}, {name: "manifests/sub/", typeflag: tar.TypeDir}}),
			ErrInvalidManifests, "in a subfolder of /manifests"},
		"manifests is a link": {plain(t, []entry{{name: "manifests", typeflag: tar.TypeSymlink}}), ErrInvalidManifests,
			"link"},
		"a linked manifest": {plain(t, []entry{{name: "manifests/a.yaml", typeflag: tar.TypeLink}}),
			ErrInvalidManifests, "link"},
		"a file that is no YAML": {plain(t, []entry{{name: "manifests/README.md", data: "hello"}}), ErrInvalidManifests,
			"manifests/README.md:1 is not an object"},
		"no list of Fleet": {artifact(Manifest{ArtifactType: FleetArtifactType, Layers: typed(FleetLayerMediaType)},
			[]byte("[]")), ErrInvalidManifests, "not a JSON object"},
		"half a list of Fleet": {artifact(Manifest{ArtifactType: FleetArtifactType, Layers: typed(FleetLayerMediaType)},
			[]byte(`{"resources":[{"name":"a.yaml"`)), ErrInvalidManifests, "entry"},
		"odd encoding": {fleet(t, fleetResource{Name: "a.yaml", Encoding: "rot13"}), ErrInvalidManifests,
			"rot13"},
		"no base64": {fleet(t, fleetResource{Name: "a.yaml", Content: "?", Encoding: "base64"}),
			ErrInvalidManifests, "base64"},
		"no gzip": {fleet(t, fleetResource{Name: "a.yaml", Content: "YQ==", Encoding: "base64+gz"}),
			ErrInvalidManifests, "gzip"},
		"gzip bomb": {fleet(t,
			fleetResource{Name: "a.yaml", Content: base64.StdEncoding.EncodeToString(zeros(t, nil, 1<<20)),
				Encoding: "base64+gz"}), ErrTooLarge, "a.yaml"},
		"Fleet leads out": {fleet(t, fleetResource{Name: "../a.yaml", Content: "x"}), ErrInvalidManifests,
			"leads out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := Limits{PackedBytes: 64 << 10, UnpackedBytes: 256 << 10, FileBytes: 64 << 10, Files: 60,
				ManifestBytes: 32 << 10, ManifestTokens: 10_000}
			_, err := newLoader(t, limits).Chart(t.Context(), tc.src)
			if !errors.Is(err, tc.kind) || !strings.Contains(fmt.Sprint(err), tc.detail) {
				t.Errorf("error = %v, want %v with %q", err, tc.kind, tc.detail)
			}
		})
	}
}

func aliasBomb() string {
	text := "a0: &a0 [" + strings.Repeat("x, ", 9) + "x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return text
}

func manyFiles(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("%d.txt", i)] = "x"
	}
	return files
}

// TestWhiteouts checks that layers are applied as in a container runtime.
func TestWhiteouts(t *testing.T) {
	t.Parallel()
	file := func(name string) entry {
		return entry{name: "manifests/" + name, data: configMap(strings.ReplaceAll(name, "/", "-"))}
	}
	folder := func(name string) entry { return entry{name: name, typeflag: tar.TypeDir} }
	base := []entry{folder("manifests/"), file("a"), file("b")}
	for name, tc := range map[string]struct {
		layers [][]entry
		want   []string
		err    string
	}{
		"replaced": {[][]entry{base, {{name: "./manifests/a", data: configMap("new")}}},
			[]string{"new", "b"}, ""},
		"removed":                   {[][]entry{base, {{name: "manifests/.wh.a"}}}, []string{"b"}, ""},
		"removed and made again":    {[][]entry{base, {{name: "manifests/.wh.a"}}, {file("a")}}, []string{"a", "b"}, ""},
		"removed in its own layer":  {[][]entry{base, {file("c"), {name: "manifests/.wh.c"}}}, []string{"a", "b", "c"}, ""},
		"opaque":                    {[][]entry{base, {file("c"), {name: "manifests/.wh..wh..opq"}}}, []string{"c"}, ""},
		"the whole folder":          {[][]entry{base, {{name: ".wh.manifests"}}, {file("c")}}, []string{"c"}, ""},
		"everything":                {[][]entry{base, {{name: ".wh..wh..opq"}, file("c")}}, []string{"c"}, ""},
		"the whole folder for good": {[][]entry{base, {{name: ".wh.manifests"}}}, nil, "no folder /manifests"},
		"a subfolder": {[][]entry{base, {folder("manifests/sub"), file("sub/c")},
			{{name: "manifests/.wh.sub"}}}, []string{"a", "b"}, ""},
		"what is in a subfolder": {[][]entry{base, {folder("manifests/sub"), file("sub/c")},
			{{name: "manifests/sub/.wh..wh..opq"}}}, nil, "in a subfolder of /manifests"},
		"a subfolder by a file": {[][]entry{base, {folder("manifests/sub"), file("sub/c")}, {file("sub")}},
			[]string{"a", "b", "sub"}, ""},
		"a name that begins alike": {[][]entry{base, {file("ab")}, {{name: "manifests/.wh.a"}}}, []string{"ab", "b"}, ""},
		"elsewhere": {[][]entry{base, {{name: "etc/.wh.manifests"}, {name: "etc/manifests/.wh.a"}}},
			[]string{"a", "b"}, ""},
		"absolute names": {[][]entry{{{name: "/manifests/a", data: configMap("a")}}}, []string{"a"}, ""},
		"leads out":      {[][]entry{{{name: "x/../manifests/a", data: configMap("a")}}}, nil, "leads out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := newLoader(t, Limits{}).Chart(t.Context(), plain(t, tc.layers...))
			if tc.err != "" {
				if !strings.Contains(fmt.Sprint(err), tc.err) {
					t.Errorf("error = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range tc.want {
				want = append(want, "templates/ConfigMap_"+name+".yaml")
			}
			if got := filesOfChart(c); !slices.Equal(got, want) {
				t.Errorf("files = %q, want %q", got, want)
			}
		})
	}
}

func TestChartOfManifests(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3-rc.1+x": "1.2.3-rc.1+x", "": "0.0.0+0123456789ab", "latest": "0.0.0+0123456789ab",
		"1.2":                               "0.0.0+0123456789ab",
		"1.2.3+" + strings.Repeat("x", 200): "0.0.0+0123456789ab",
	} {
		src := flux(t, map[string]string{"a.yaml": configMap("a")})
		src.Version = version
		if c := mustLoad(t, src); c.Name() != "demo" || c.Metadata.Version != want {
			t.Errorf("version %q: chart %s %s, want %s", version, c.Name(), c.Metadata.Version, want)
		}
	}
	// The key in the cache contains all inputs of the chart.
	l := newLoader(t, Limits{})
	src := flux(t, map[string]string{"x/a.yaml": configMap("a"), "y/b.yaml": configMap("b")})
	for _, change := range []func(){
		func() {}, func() { src.Path = "x" }, func() { src.Path = "y" }, func() { src.Templates = true },
		func() { src.Name = "other" }, func() { src.Version = "2.0.0" },
	} {
		change()
		c, err := l.Chart(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		want := mustLoad(t, src)
		if !slices.Equal(filesOfChart(c), filesOfChart(want)) || c.Name() != want.Name() ||
			c.Metadata.Version != want.Metadata.Version {
			t.Errorf("%+v: %s %s %q", src.Selection, c.Name(), c.Metadata.Version, filesOfChart(c))
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	src := flux(t, map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include \"name\" . }}\ndata:\n{{- range " +
			"$k, $v := .Values.data }}\n  {{ $k }}: {{ $v | quote }}\n{{- end }}\n",
		"_helpers.tpl": "{{ define \"name\" }}{{ .Release.Name }}-x{{ end }}",
		"crd.yaml":     crdText,
		"mixed.yaml":   configMap("plain"),
	})
	src.Templates = true
	c := mustLoad(t, src)
	if want := []string{"crds/crd.yaml", "templates/_helpers.tpl", "templates/a.yaml",
		"templates/mixed.yaml"}; !slices.Equal(filesOfChart(c), want) {
		t.Fatalf("files = %q, want %q", filesOfChart(c), want)
	}
	objects := rendered(t, c, map[string]any{"data": map[string]any{"a": "b"}})
	if data := objects["r-x"].(map[string]any)["data"]; fmt.Sprint(data) != "map[a:b]" || objects["plain"] == nil {
		t.Errorf("objects = %v", objects)
	}
	src.Templates = false
	if _, err := newLoader(t, Limits{}).Chart(t.Context(), src); !errors.Is(err, ErrInvalidManifests) {
		t.Errorf("error = %v: braces are no YAML without templating", err)
	}
}

// FuzzLiteral puts a text into an object and renders the object with Helm. The result must be equal to the object.
func FuzzLiteral(f *testing.F) {
	for _, text := range []string{
		"{{ .Values.x }}", "{{- `x` -}}", "{{{{", "{{{", "}}{{", "<no value>", "{{ <no value> }}", "a\n---\nb: c\n",
		"\n--- x", "{{/* */}}", "`{{`", "{{`{{`}}",
		"yes", "1e3", "0x1f", "~", "- a", "a: b", "# no comment", "\t", " \n ", "\u2028\u0085\ufeff", "é😀", "\\u007b\\u007b",
		"...", "%TAG", "\x7f\x00", "\r\n", strings.Repeat("{{ x }} ", 300),
		strings.Repeat("word ", 60) + "{{ x }}", "# Source: x\n", "&a *a !!int 1",
	} {
		f.Add(text, "key")
		f.Add("x", text)
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		if len(key) > 100 {
			return // YAML allows at most 1,024 characters in an escaped key
		}
		want := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "x", "annotations": map[string]any{key: text}},
			"data":     map[string]any{"a": text, "b": []any{text, key, map[string]any{key: []any{}}}},
		}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		r := documents.NewReader(Limits{}.WithDefaults(), nil)
		if err := r.File("x.json", data); err != nil {
			if errors.Is(err, ErrTooLarge) {
				return
			}
			t.Fatal(err)
		}
		c := &chart.Chart{Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: "x", Version: "1.0.0"}}
		if err := addObjects(c, r.Objects, false, nil); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(rendered(t, c, nil)["x"])
		if err != nil {
			t.Fatal(err)
		}
		var again any
		if err := json.Unmarshal(data, &again); err != nil { // characters that JSON cannot have are replaced
			t.Fatal(err)
		}
		if data, _ = json.Marshal(again); string(got) != string(data) {
			t.Errorf("rendered  %s\ninstead of %s\nfrom %s", got, data, c.Templates[0].Data)
		}
	})
}

// FuzzManifests reads files in all formats. It must not panic, and each error must have a kind.
func FuzzManifests(f *testing.F) {
	f.Add(configMap("a"), uint8(0))
	f.Add("apiVersion: v1\nkind: List\nitems: [{}]\n---\n...\n%YAML 1.1\n", uint8(1))
	f.Add(`{"resources":[{"name":"a.yaml","content":"","encoding":"base64+gz"}]}`, uint8(4))
	f.Add("resources: [a.yaml]\npatches: [{path: a.yaml}]\n", uint8(2))
	limits := Limits{PackedBytes: 1 << 20, UnpackedBytes: 1 << 20, FileBytes: 1 << 18, Files: 100, ManifestBytes: 1 << 18,
		ManifestTokens: 20_000}.WithDefaults()
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		src := flux(t, map[string]string{"a.yaml": text})
		switch kind % 5 {
		case 1:
			src = flux(t, map[string]string{"a.json": text})
		case 2:
			src = flux(t, map[string]string{"kustomization.yaml": text, "a.yaml": configMap("a")})
		case 3:
			src = plain(t, []entry{{name: "manifests/a", data: text}})
		case 4:
			src = artifact(Manifest{ArtifactType: FleetArtifactType, Layers: typed(FleetLayerMediaType)}, []byte(text))
		}
		_, err := newLoader(t, limits).Chart(t.Context(), src)
		if err != nil && !errors.Is(err, ErrInvalidManifests) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("error without a kind: %v", err)
		}
	})
}
