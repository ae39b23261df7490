/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, config string
		layers       []string
		selected     string
		layer        int
		wantErr      string
	}{
		{name: "chart", config: ChartConfigMediaType, layers: []string{ChartLayerMediaType}},
		{name: "with provenance", config: ChartConfigMediaType, layers: []string{"application/vnd.cncf.helm.chart.provenance.v1.prov", ChartLayerMediaType}, layer: 1},
		{name: "by another tool", config: "application/vnd.oci.empty.v1+json", layers: []string{ChartLayerMediaType}},
		{name: "before Helm 3.7", config: ChartConfigMediaType, layers: []string{"application/tar+gzip"}},
		{name: "image", config: "application/vnd.oci.image.config.v1+json", layers: []string{"application/vnd.oci.image.layer.v1.tar+gzip"}, wantErr: "image.layer.v1"},
		{name: "some archive", config: "application/json", layers: []string{"application/tar+gzip"}, wantErr: "application/json"},
		{name: "many layers", config: "x", layers: strings.Split(strings.Repeat("a,", 5000), ","), wantErr: "and 4996 more"},
		{name: "nothing", wantErr: "layers []"},
		{name: "selected", config: "application/vnd.oci.image.config.v1+json", layers: []string{"a/b", "c/d", "c/d"}, selected: "c/d", layer: 1},
		{name: "selected beside the usual one", config: ChartConfigMediaType, layers: []string{ChartLayerMediaType, "c/d"}, selected: "c/d", layer: 1},
		{name: "selected is not there", config: ChartConfigMediaType, layers: []string{ChartLayerMediaType, "c/d"}, selected: "c/", wantErr: `"c/", found layers ["` + ChartLayerMediaType + `", "c/d"]`},
		{name: "selected in no layers", selected: "c/d", wantErr: "found layers []"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kind, layer, err := Detect(tc.config, "", tc.layers, tc.selected)
			if tc.wantErr != "" {
				if !errors.Is(err, ErrNotAChart) || !strings.Contains(fmt.Sprint(err), tc.wantErr) {
					t.Errorf("error = %v, want ErrNotAChart with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || kind != KindChart || layer != tc.layer {
				t.Errorf("Detect = %q, %d, %v", kind, layer, err)
			}
		})
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	data := pack(t,
		entry{name: "demo/Chart.yaml", data: chartYAML + "dependencies:\n- {name: b, version: 1.0.0, repository: \"\"}\n- {name: a, version: 1.0.0, repository: \"\", alias: c}\n"},
		entry{name: "demo/values.yaml", data: "\xef\xbb\xbfx: \"1.10\"\n"},
		entry{name: `demo\templates\win.yaml`, data: "kind: ConfigMap\n"},
		entry{name: "demo/crds/crd.yaml", data: "kind: CustomResourceDefinition\n"},
		entry{name: "demo/README.md", typeflag: tar.TypeSymlink},
		entry{name: "demo/charts/b-1.0.0.tgz", data: subchart(t, "b", "1.0.0", entry{name: "b/charts/deep-0.1.0.tgz", data: subchart(t, "deep", "0.1.0")})},
		entry{name: "demo/charts/a/Chart.yaml", data: "apiVersion: v1\nname: a\nversion: 1.0.0\n"},
		entry{name: "demo/charts/a/charts/inner-0.2.0.tgz", data: subchart(t, "inner", "0.2.0")},
		entry{name: "demo/charts/_ignored.tgz", data: "no archive"},
		entry{name: "demo/files/data.tgz", data: "no chart either"},
	)
	c, err := newLoader(t, Limits{}).Chart(t.Context(), source("d", data, nil))
	if err != nil {
		t.Fatal(err)
	}
	var tree func(c *chart.Chart) string
	tree = func(c *chart.Chart) string {
		var subs []string
		for _, sub := range c.Dependencies() {
			if sub.Parent() != c {
				t.Errorf("%s does not know its parent", sub.Name())
			}
			subs = append(subs, tree(sub))
		}
		return fmt.Sprintf("%s-%s%v", c.Name(), c.Metadata.Version, subs)
	}
	if got, want := tree(c), "demo-1.2.3[a-1.0.0[inner-0.2.0[]] b-1.0.0[deep-0.1.0[]]]"; got != want {
		t.Errorf("charts = %s, want %s", got, want)
	}
	if len(c.Templates) != 1 || c.Templates[0].Name != "templates/win.yaml" || len(c.CRDObjects()) != 1 || c.Values["x"] != "1.10" {
		t.Errorf("templates %v, CRDs %v, values %v", c.Templates, c.CRDObjects(), c.Values)
	}
}

func TestChartRefused(t *testing.T) {
	t.Parallel()
	small := Limits{PackedBytes: 4 << 10, UnpackedBytes: 64 << 10, FileBytes: 32 << 10, Files: 60}
	deep := entry{name: "demo/charts/x.tgz", data: subchart(t, "x", "1.0.0")}
	for range maxDepth + 1 {
		deep.data = subchart(t, "x", "1.0.0", entry{name: "x/charts/x.tgz", data: deep.data})
	}
	many := make([]entry, 80)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("demo/templates/%d", i)}
	}
	bomb := func(n int) entry {
		return entry{name: fmt.Sprintf("demo/charts/bomb%d.tgz", n), data: subchart(t, "bomb", "1.0.0", entry{name: "bomb/x", data: strings.Repeat("\x00", 30<<10)})}
	}
	for _, tc := range []struct {
		name   string
		data   []byte
		want   error
		detail string
	}{
		{"no archive", []byte("hello"), ErrInvalidChart, "gzip"},
		{"cut off", demo(t)[:100], ErrInvalidChart, ""},
		{"empty", pack(t), ErrInvalidChart, "Chart.yaml"},
		{"parent path", demo(t, entry{name: "demo/../../etc/passwd", data: "x"}), ErrInvalidChart, "leads out"},
		{"absolute path", demo(t, entry{name: "demo//etc/passwd", data: "x"}), ErrInvalidChart, "absolute"},
		{"drive", demo(t, entry{name: `demo\C:\x`, data: "x"}), ErrInvalidChart, "absolute"},
		{"outside of the folder", demo(t, entry{name: "Chart.yaml", data: "x"}), ErrInvalidChart, "folder"},
		{"linked template", demo(t, entry{name: "demo/templates/x.yaml", typeflag: tar.TypeSymlink}), ErrInvalidChart, "templates/x.yaml"},
		{"hard linked CRD", demo(t, entry{name: "demo/crds/x.yaml", typeflag: tar.TypeLink}), ErrInvalidChart, "crds/x.yaml"},
		{"linked templates", demo(t, entry{name: "demo/templates", typeflag: tar.TypeSymlink}), ErrInvalidChart, "link"},
		{"twice", demo(t, entry{name: "demo/values.yaml", data: "x"}), ErrInvalidChart, "twice"},
		{"control characters", demo(t, entry{name: "demo/a\nb", data: "x"}), ErrInvalidChart, "printable"},
		{"library", pack(t, entry{name: "l/Chart.yaml", data: chartYAML + "type: library\n"}), ErrInvalidChart, "library"},
		{"unknown apiVersion", pack(t, entry{name: "l/Chart.yaml", data: "apiVersion: v9\nname: x\nversion: 1.0.0\n"}), ErrInvalidChart, "v9"},
		{"bad version", pack(t, entry{name: "l/Chart.yaml", data: "apiVersion: v2\nname: x\nversion: one\n"}), ErrInvalidChart, "version"},
		{"long version", pack(t, entry{name: "l/Chart.yaml", data: "apiVersion: v2\nname: x\nversion: 1.0.0-" + strings.Repeat("a", 200)}), ErrInvalidChart, "longer"},
		{"bad values", pack(t, entry{name: "l/Chart.yaml", data: chartYAML}, entry{name: "l/values.yaml", data: "a: [\n"}), ErrInvalidChart, "values.yaml"},
		{"null dependency", pack(t, entry{name: "l/Chart.yaml", data: chartYAML + "dependencies: [null]\n"}), ErrInvalidChart, "null"},
		{"missing dependency", pack(t, entry{name: "l/Chart.yaml", data: chartYAML + "dependencies: [{name: gone, version: 1.0.0, repository: x}]\n"}), ErrInvalidChart, "gone"},
		{"broken subchart", demo(t, entry{name: "demo/charts/x.tgz", data: "junk"}), ErrInvalidChart, `charts/x.tgz`},
		{"packed too large", append(demo(t), make([]byte, 8<<10)...), ErrTooLarge, "packed"},
		{"file too large", demo(t, entry{name: "demo/x", data: strings.Repeat("a", 40<<10)}), ErrTooLarge, "demo/x"},
		{"unpacked too large", demo(t, entry{name: "demo/x", data: strings.Repeat("a", 31<<10)}, entry{name: "demo/y", data: strings.Repeat("a", 31<<10)},
			entry{name: "demo/z", data: strings.Repeat("a", 31<<10)}), ErrTooLarge, "unpacked"},
		{"subcharts too large together", demo(t, bomb(1), bomb(2), bomb(3)), ErrTooLarge, "unpacked"},
		{"too many files", demo(t, many...), ErrTooLarge, "files"},
		{"too deep", demo(t, deep), ErrTooLarge, "deep"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := newLoader(t, small).Chart(t.Context(), source("d", tc.data, nil))
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.detail) {
				t.Errorf("error = %v, want %v with %q", err, tc.want, tc.detail)
			}
		})
	}
}

func TestChartIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	l := newLoader(t, Limits{})
	var reads atomic.Int64
	src := source("d", bigChart(t), &reads)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := l.Chart(t.Context(), src)
			if err != nil {
				t.Error(err)
				return
			}
			// What Helm does, and more; the race detector watches.
			c.Metadata.Dependencies[0].Enabled = true
			c.Metadata.Dependencies[0].ImportValues[0].(map[string]any)["child"] = "changed"
			c.Values["key0"].(map[string]any)["enabled"] = "changed"
			c.Values["key0"].(map[string]any)["args"].([]any)[0] = "changed"
			c.Templates[0].Name = "changed"
			c.SetDependencies(c.Dependencies()[1:]...)
		})
	}
	wg.Wait()
	before := reads.Load()
	c, err := l.Chart(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if reads.Load() != before {
		t.Error("a cached chart was read again")
	}
	if len(c.Dependencies()) != 10 || c.Metadata.Dependencies[0].Enabled || c.Templates[0].Name == "changed" ||
		c.Values["key0"].(map[string]any)["enabled"] != true || c.Values["key0"].(map[string]any)["args"].([]any)[0] != "a" {
		t.Error("a caller saw the changes of another")
	}
}

// TestCopySharesNothing walks both charts and fails on any map, pointer or
// slice they have in common, so that fields added by a new Helm are noticed.
func TestCopySharesNothing(t *testing.T) {
	t.Parallel()
	files, _, err := unpack(bigChart(t), Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(files)
	if err != nil {
		t.Fatal(err)
	}
	c.Raw = nil
	c.Lock = &chart.Lock{Dependencies: []*chart.Dependency{{Name: "x", Tags: []string{"t"}}}}
	c.Metadata.Maintainers = []*chart.Maintainer{{Name: "m"}}
	c.Metadata.Annotations = map[string]string{"a": "b"}
	c.Metadata.Keywords, c.Metadata.Sources = []string{"k"}, []string{"s"}
	copied := copyChart(c)
	for i := range c.Dependencies() {
		c.Dependencies()[i].Raw = nil
	}
	if !reflect.DeepEqual(c, copied) {
		t.Error("the copy differs")
	}
	seen := map[uintptr]string{}
	addresses(reflect.ValueOf(c), "chart", func(address uintptr, path string) { seen[address] = path })
	addresses(reflect.ValueOf(copied), "chart", func(address uintptr, path string) {
		if original, ok := seen[address]; ok {
			t.Errorf("%s is shared with %s", path, original)
		}
	})
}

// addresses visits what can be changed through a value, but for file contents
// and the unexported links between charts.
func addresses(v reflect.Value, path string, visit func(uintptr, string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() || v.Kind() == reflect.Slice && (v.Len() == 0 || v.Type().Elem().Kind() == reflect.Uint8) {
			return
		}
		if v.Type().String() == "*time.Location" {
			return
		}
		visit(v.Pointer(), path)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			addresses(v.Elem(), path, visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			addresses(v.MapIndex(key), path+"."+key.String(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			addresses(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "parent" {
				addresses(v.Field(i), path+"."+name, visit)
			}
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	data := demo(t, entry{name: "demo/x", data: strings.Repeat("a", 1000)})
	l := newLoader(t, Limits{CacheBytes: 3000})
	var reads atomic.Int64
	load := func(digest string) {
		t.Helper()
		if _, err := l.Chart(t.Context(), source(digest, data, &reads)); err != nil {
			t.Fatal(err)
		}
	}
	for _, digest := range []string{"a", "b", "a", "c"} {
		load(digest)
	}
	if got := reads.Load(); got != 3 {
		t.Fatalf("%d reads, want 3", got)
	}
	load("a") // used more recently than b
	load("b")
	if got := reads.Load(); got != 4 {
		t.Errorf("%d reads, want 4: b and only b was dropped", got)
	}
	if l.bytes > 3000 {
		t.Errorf("cache holds %d bytes", l.bytes)
	}
	tiny := newLoader(t, Limits{CacheBytes: 10})
	for range 2 {
		if _, err := tiny.Chart(t.Context(), source("a", data, &reads)); err != nil {
			t.Fatal(err)
		}
	}
	if tiny.bytes != 0 || reads.Load() != 6 {
		t.Errorf("a chart over the limit was kept: %d bytes, %d reads", tiny.bytes, reads.Load())
	}
}

func TestOneReadersErrorIsItsOwn(t *testing.T) {
	t.Parallel()
	l := newLoader(t, Limits{})
	denied := errors.New("denied")
	bad := source("d", nil, nil)
	bad.ReadLayer = func(context.Context, int) ([]byte, error) { return nil, denied }
	if _, err := l.Chart(t.Context(), bad); !errors.Is(err, denied) {
		t.Errorf("error = %v, want the reader's", err)
	}
	if _, err := l.Chart(t.Context(), source("d", demo(t), nil)); err != nil {
		t.Error(err)
	}
}

// FuzzUnpack is given the tar inside the gzip, whose checksum would keep a
// fuzzer out.
func FuzzUnpack(f *testing.F) {
	for _, packed := range [][]byte{
		demo(f),
		demo(f, entry{name: "demo/charts/x.tgz", data: subchart(f, "x", "1.0.0")}),
		demo(f, entry{name: "demo/link", typeflag: tar.TypeSymlink}, entry{name: `demo\a/../b`, data: "x"}),
	} {
		f.Add(gunzip(f, packed))
	}
	limits := Limits{PackedBytes: 1 << 20, UnpackedBytes: 1 << 20, FileBytes: 1 << 18, Files: 100}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, size, err := unpack(gzipped(t, data), limits)
		if err != nil {
			if !errors.Is(err, ErrInvalidChart) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("error without a kind: %v", err)
			}
			return
		}
		if size > limits.UnpackedBytes {
			t.Errorf("unpacked %d bytes", size)
		}
		for _, file := range files {
			if strings.HasPrefix(file.Name, "/") || strings.HasPrefix(file.Name, "../") || strings.Contains(file.Name, "/../") {
				t.Errorf("name %q leads out", file.Name)
			}
		}
		_, _ = parse(files) // must not panic
	})
}

// The three ways to give each caller a chart of its own, on one large chart.
func BenchmarkChart(b *testing.B) {
	data := bigChart(b)
	b.Run("copy", func(b *testing.B) {
		l := newLoader(b, Limits{})
		for b.Loop() {
			if _, err := l.Chart(context.Background(), source("d", data, nil)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse files", func(b *testing.B) {
		files, _, err := unpack(data, Limits{}.withDefaults())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			again := make([]*loader.BufferedFile, len(files))
			for i, file := range files {
				again[i] = &loader.BufferedFile{Name: file.Name, Data: file.Data}
			}
			if _, err := parse(again); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unpack and parse", func(b *testing.B) {
		for b.Loop() {
			files, _, err := unpack(data, Limits{}.withDefaults())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := parse(files); err != nil {
				b.Fatal(err)
			}
		}
	})
}
