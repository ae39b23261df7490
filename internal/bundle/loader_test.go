// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// testRunner builds the kustomizations of all tests.
var testRunner = sandbox.NewPool(sandbox.Options{})

func TestMain(m *testing.M) {
	sandbox.Serve(Tasks())
	os.Exit(m.Run())
}

// typed returns layers with only a media type.
func typed(mediaTypes ...string) []Layer {
	layers := make([]Layer, 0, len(mediaTypes))
	for _, mediaType := range mediaTypes {
		layers = append(layers, Layer{MediaType: mediaType})
	}
	return layers
}

func TestDetect(t *testing.T) {
	t.Parallel()
	const imageLayer = "application/vnd.oci.image.layer.v1.tar+gzip"
	for name, tc := range map[string]struct {
		config, artifactType string
		layers               []Layer
		want                 Selection
		format               Format
		content              []int
		wantErr              string
	}{
		"chart": {config: ChartConfigMediaType, layers: typed(ChartLayerMediaType), format: FormatHelmChart,
			content: []int{0}},
		"chart with provenance": {config: ChartConfigMediaType,
			layers: typed("application/vnd.cncf.helm.chart.provenance.v1.prov", ChartLayerMediaType), format: FormatHelmChart,
			content: []int{1}},
		"chart by another tool": {config: "application/vnd.oci.empty.v1+json", layers: typed(ChartLayerMediaType),
			format: FormatHelmChart, content: []int{0}},
		"chart before Helm 3.7": {config: ChartConfigMediaType, layers: typed("application/tar+gzip"),
			format: FormatHelmChart, content: []int{0}},
		"some archive": {config: "application/json", layers: typed("application/tar+gzip"),
			wantErr: "application/json"},
		"many layers": {config: "x", layers: typed(strings.Split(strings.Repeat("a,", 5000), ",")...),
			wantErr: "and 4996 more"},
		"nothing": {wantErr: "layers []"},
		"selected": {config: imageConfigMediaType, layers: typed("a/b", "c/d", "c/d"),
			want: Selection{LayerMediaType: "c/d"}, format: FormatHelmChart, content: []int{1}},
		"selected beside chart": {config: ChartConfigMediaType, layers: typed(ChartLayerMediaType, "c/d"),
			want: Selection{LayerMediaType: "c/d"}, format: FormatHelmChart, content: []int{1}},
		"selected, not there": {layers: typed(ChartLayerMediaType, "c/d"), want: Selection{LayerMediaType: "c/"},
			wantErr: `"c/"; found layers ["` + ChartLayerMediaType + `", "c/d"]`},
		"selected in no layers": {want: Selection{LayerMediaType: "c/d"}, wantErr: "found layers []"},
		"flux": {config: "application/vnd.cncf.flux.config.v1+json", layers: typed(FluxLayerMediaType),
			format: FormatFlux, content: []int{0}},
		"flux by format": {layers: typed("a/b"), want: Selection{Format: FormatFlux, Path: "x"}, format: FormatFlux,
			content: []int{0}},
		"flux by format, unsure": {layers: typed("a/b", "c/d"), want: Selection{Format: FormatFlux},
			wantErr: "no layer has the format Flux"},
		"flux by layer": {layers: typed("a/b", "c/d"), want: Selection{Format: FormatFlux, LayerMediaType: "c/d"},
			format: FormatFlux, content: []int{1}},
		"fleet": {artifactType: FleetArtifactType, layers: typed(FleetLayerMediaType), format: FormatFleet,
			content: []int{0}},
		"fleet by artifact type": {artifactType: FleetArtifactType, layers: typed("a/b"), format: FormatFleet,
			content: []int{0}},
		"image": {config: imageConfigMediaType, layers: typed(imageLayer, imageLayer), format: FormatPlain,
			content: []int{0, 1}},
		"image of Docker": {config: dockerConfigMediaType,
			layers: typed("application/vnd.docker.image.rootfs.diff.tar.gzip"), format: FormatPlain, content: []int{0}},
		"image without compression": {config: imageConfigMediaType, layers: typed("application/vnd.oci.image.layer.v1.tar"),
			format: FormatPlain, content: []int{0}},
		"image with types of other tools": {config: imageConfigMediaType,
			layers: typed("application/tar+gzip", "application/x-tar"), format: FormatPlain, content: []int{0, 1}},
		"image with zstd": {config: imageConfigMediaType, layers: typed(imageLayer,
			"application/vnd.oci.image.layer.v1.tar+zstd"), wantErr: "layer 1 of the image has the type"},
		"encrypted image": {config: imageConfigMediaType, layers: typed(imageLayer + "+encrypted"),
			wantErr: "the layers of a plain bundle are tar archives"},
		"image of a module": {config: imageConfigMediaType, layers: typed("application/wasm"), wantErr: "application/wasm"},
		"image with an unknown type": {config: imageConfigMediaType, layers: typed("a/gz"),
			wantErr: "set format: Plain"},
		"image by format": {layers: typed("a/b"), want: Selection{Format: FormatPlain}, format: FormatPlain,
			content: []int{0}},
		"image with a path": {config: imageConfigMediaType, layers: typed(imageLayer), want: Selection{Path: "x"},
			wantErr: "remove path"},
		"image with a layer": {config: imageConfigMediaType, layers: typed(imageLayer),
			want: Selection{Format: FormatPlain, LayerMediaType: imageLayer}, wantErr: "remove layerSelector"},
		"chart with templating": {layers: typed(ChartLayerMediaType), want: Selection{Templates: true},
			wantErr: "remove templating"},
		"chart with a path":  {layers: typed(ChartLayerMediaType), want: Selection{Path: "x"}, wantErr: "remove path"},
		"chart that is none": {layers: typed("a/b"), want: Selection{Format: FormatHelmChart}, wantErr: `"a/b"`},
		"files": {layers: []Layer{{MediaType: imageLayer, Title: "README.md"}, {MediaType: imageLayer, Title: "a.yaml"},
			{MediaType: imageLayer, Title: "more", IsFolder: true}},
			format: FormatFiles, content: []int{1, 2}},
		"files without manifests": {layers: []Layer{{MediaType: imageLayer, Title: "README.md"}}, wantErr: imageLayer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			format, layers, err := Detect(Manifest{ConfigMediaType: tc.config, ArtifactType: tc.artifactType, Layers: tc.layers},
				tc.want)
			if tc.wantErr != "" {
				if !errors.Is(err, ErrUnsupported) || !strings.Contains(fmt.Sprint(err), tc.wantErr) {
					t.Errorf("error = %v, want ErrUnsupported with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || format != tc.format || !slices.Equal(layers, tc.content) {
				t.Errorf("Detect = %q, %v, %v", format, layers, err)
			}
		})
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	data := pack(t,
		entry{name: "demo/Chart.yaml",
			data: chartYAML +
				"dependencies:\n- {name: b, version: 1.0.0, repository: \"\"}\n- {name: a, version: 1.0.0, repository: \"\", " +
				"alias: c}\n"},
		entry{name: "demo/values.yaml", data: "\xef\xbb\xbfx: \"1.10\"\n"},
		entry{name: `demo\templates\win.yaml`, data: "kind: ConfigMap\n"},
		entry{name: "demo/crds/crd.yaml", data: "kind: CustomResourceDefinition\n"},
		entry{name: "demo/README.md", typeflag: tar.TypeSymlink},
		entry{name: "demo/charts/b-1.0.0.tgz",
			data: subchart(t, "b", "1.0.0", entry{name: "b/charts/deep-0.1.0.tgz", data: subchart(t, "deep", "0.1.0")})},
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
	if len(c.Templates) != 1 || c.Templates[0].Name != "templates/win.yaml" || len(c.CRDObjects()) != 1 ||
		c.Values["x"] != "1.10" {
		t.Errorf("templates %v, CRDs %v, values %v", c.Templates, c.CRDObjects(), c.Values)
	}
}

// TestChartIsShared checks that all callers get the same chart. The chart is parsed once and has no packed files.
func TestChartIsShared(t *testing.T) {
	t.Parallel()
	l := newLoader(t, Limits{})
	var reads atomic.Int64
	src := source("d", bigChart(t), &reads)
	first, err := l.Chart(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Chart(t.Context(), src)
	cached, ok := l.Cached(src)
	if err != nil || !ok || again != first || cached != first || reads.Load() != 1 {
		t.Errorf("another chart, or read %d times: %v", reads.Load(), err)
	}
	charts := append([]*chart.Chart{first}, first.Dependencies()...)
	if len(charts) != 11 {
		t.Errorf("%d charts", len(charts))
	}
	for _, c := range charts {
		if c.Raw != nil {
			t.Errorf("%s keeps %d packed files", c.ChartFullPath(), len(c.Raw))
		}
	}
}

// TestSelectedLayer checks that the media type of the layer selects one of several packed charts.
func TestSelectedLayer(t *testing.T) {
	t.Parallel()
	l := newLoader(t, Limits{})
	chartNamed := func(name string) []byte {
		return pack(t, entry{name: name + "/Chart.yaml", data: "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"})
	}
	layers := [][]byte{[]byte("no chart"), chartNamed("a"), chartNamed("b"), chartNamed("c")}
	var reads atomic.Int64
	src := Source{
		Digest: "d", Manifest: Manifest{ConfigMediaType: ChartConfigMediaType,
			Layers: typed("text/plain", "application/x-a", ChartLayerMediaType, "application/x-a")},
		ReadLayer: func(_ context.Context, layer int) ([]byte, error) {
			reads.Add(1)
			return layers[layer], nil
		},
	}
	for _, tc := range []struct {
		selected, want string
		reads          int64
	}{
		{"", "b", 1}, {"application/x-a", "a", 2}, {"", "b", 2}, {ChartLayerMediaType, "b", 2}, {"application/x-a", "a", 2},
	} {
		src.LayerMediaType = tc.selected
		c, err := l.Chart(t.Context(), src)
		if err != nil || c.Name() != tc.want {
			t.Fatalf("layer %q: %v, %v; want chart %s", tc.selected, c, err, tc.want)
		}
		if got := reads.Load(); got != tc.reads {
			t.Errorf("layer %q: %d reads, want %d", tc.selected, got, tc.reads)
		}
	}
	for selected, want := range map[string]error{"application/x-b": ErrUnsupported, "text/plain": ErrInvalidChart} {
		src.LayerMediaType = selected
		if _, err := l.Chart(t.Context(), src); !errors.Is(err, want) {
			t.Errorf("layer %q: error = %v, want %v", selected, err, want)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	data := demo(t, entry{name: "demo/x", data: strings.Repeat("a", 10_000)})
	l := newLoader(t, Limits{CacheBytes: 30_000})
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
	load("a") // a is now used more recently than b
	load("b")
	if got := reads.Load(); got != 4 {
		t.Errorf("%d reads, want 4: b and only b was dropped", got)
	}
	if _, bytes := l.charts.Stats(); bytes > 30_000 {
		t.Errorf("cache holds %d bytes", bytes)
	}
	tiny := newLoader(t, Limits{CacheBytes: 10})
	for range 2 {
		if _, err := tiny.Chart(t.Context(), source("a", data, &reads)); err != nil {
			t.Fatal(err)
		}
	}
	if _, bytes := tiny.charts.Stats(); bytes != 0 || reads.Load() != 6 {
		t.Errorf("a chart over the limit was kept: %d bytes, %d reads", bytes, reads.Load())
	}
}

func TestReadErrorDoesNotFailOtherCallers(t *testing.T) {
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

// TestLoaderAcquiresMemoryBeforeReading checks that the memory of all callers together stays within the budget, for
// slow pulls and for large artifacts.
func TestLoaderAcquiresMemoryBeforeReading(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	budget := bytebudget.New(4 << 20)
	l := NewBoundedLoader(Limits{}, testRunner, budget)
	chart := demo(t)
	var inMemory, most, pulls atomic.Int64
	pulled, parse := make(chan struct{}), make(chan struct{})
	var done sync.WaitGroup
	for i := range 50 {
		src := source(fmt.Sprint(i), chart, nil)
		src.Layers[0].Size = 200_000 // the parse needs 5 times the size, which is the share of a host
		src.Owner = bytebudget.Owner{Host: fmt.Sprint(i % 10)}
		src.PullLayer = func(context.Context, int) error {
			pulls.Add(1)
			<-pulled
			return nil
		}
		src.ReadLayer = func(context.Context, int) ([]byte, error) {
			most.Store(max(most.Load(), inMemory.Add(1)))
			defer inMemory.Add(-1)
			<-parse
			return chart, nil
		}
		done.Go(func() {
			if _, err := l.Chart(t.Context(), src); err != nil {
				t.Error(err)
			}
		})
	}
	g.Eventually(pulls.Load).Should(Equal(int64(50)), "pulls need no memory and no turn")
	g.Expect(budget.InUse()).To(BeZero())
	close(pulled)
	g.Eventually(budget.Waiting).Should(BeNumerically(">=", 40), "the others wait before they read")
	close(parse)
	done.Wait()
	g.Expect(most.Load()).To(BeNumerically("<=", maxParses))
	g.Expect(budget.InUse()).To(BeZero())

	full, err := budget.Acquire(t.Context(), bytebudget.Owner{Host: "a"}, budget.Share())
	g.Expect(err).NotTo(HaveOccurred())
	defer full.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	src := source("late", chart, nil)
	src.Layers[0].Size, src.Owner = 200_000, bytebudget.Owner{Host: "a"}
	_, err = l.Chart(ctx, src)
	g.Expect(err).To(MatchError(bytebudget.ErrExhausted))
}

// TestLoaderReservesUnpackedBytes checks that a parse reserves memory for its unpacked bytes before it reads them. It
// fails without waiting if the memory is used up or never enough, and then holds nothing.
func TestLoaderReservesUnpackedBytes(t *testing.T) {
	t.Parallel()
	const total = 64 << 20
	owner := bytebudget.Owner{Tenant: "a", Host: "a"}
	chart := func(files []entry) Source {
		data := demo(t, files...)
		src := source("zeros", data, nil)
		src.Layers[0].Size = int64(len(data))
		return src
	}
	folder := func(files []entry) Source {
		kustomization := entry{name: "kustomization.yaml", data: "configMapGenerator: [{name: a, literals: [a=b]}]\n"}
		return artifact(Manifest{Layers: typed(FluxLayerMediaType)}, pack(t, append(files, kustomization)...))
	}
	for name, tc := range map[string]struct {
		kind  func(files []entry) Source
		files int
		// taken is the memory that other parses hold, in bytes.
		taken int64
		want  error
	}{
		"there is enough":                    {chart, 12, 0, nil},
		"more than the share":                {chart, 17, 0, ErrTooLarge},
		"others hold the rest":               {chart, 12, total - 8<<20, bytebudget.ErrExhausted},
		"it needs only a little":             {chart, 0, total, nil},
		"enough for a folder":                {folder, 5, 0, nil},
		"a folder and copies for its build":  {folder, 6, 0, ErrTooLarge},
		"others hold the rest for the build": {folder, 5, total - 8<<20, bytebudget.ErrExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := bytebudget.New(total)
			taken, err := budget.Acquire(t.Context(), bytebudget.Owner{}, tc.taken)
			if err != nil {
				t.Fatal(err)
			}
			var files []entry
			for i := range tc.files {
				// 1 KiB of packed zeros unpacks to 1 MiB.
				files = append(files, entry{name: fmt.Sprintf("demo/docs/%d.bin", i), data: string(make([]byte, 1<<20))})
			}
			src := tc.kind(files)
			if size := src.Layers[0].Size; size > bytebudget.Free {
				t.Fatalf("the test is wrong: %d packed bytes are charged before they are unpacked", size)
			}
			src.Owner = owner
			made, err := NewBoundedLoader(Limits{}, testRunner, budget).Chart(t.Context(), src)
			if !errors.Is(err, tc.want) || (made != nil) != (tc.want == nil) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if budget.InUse() != taken.Held() {
				t.Errorf("%d bytes are held after the parse", budget.InUse()-taken.Held())
			}
		})
	}
}

// BenchmarkChart measures the cost of a chart in the cache, of unpacked files and of an archive.
func BenchmarkChart(b *testing.B) {
	data := bigChart(b)
	b.Run("cached", func(b *testing.B) {
		l := newLoader(b, Limits{})
		for b.Loop() {
			if _, err := l.Chart(context.Background(), source("d", data, nil)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse files", func(b *testing.B) {
		files, _, err := unpack.Chart(data, Limits{}.WithDefaults(), nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			again := make([]*loader.BufferedFile, len(files))
			for i, file := range files {
				again[i] = &loader.BufferedFile{Name: file.Name, Data: file.Data}
			}
			if _, err := parse(again, Limits{}.WithDefaults(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unpack and parse", func(b *testing.B) {
		for b.Loop() {
			files, _, err := unpack.Chart(data, Limits{}.WithDefaults(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := parse(files, Limits{}.WithDefaults(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestLoaderRequiresName checks that a chart with a wrong name or version is refused, also if it is cached.
func TestLoaderRequiresName(t *testing.T) {
	t.Parallel()
	loader, src := newLoader(t, Limits{}), source("named", demo(t), nil)
	made, err := loader.Chart(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	src.IsNamed, src.Name, src.Version = true, made.Metadata.Name, made.Metadata.Version
	if _, err := loader.Chart(t.Context(), src); err != nil {
		t.Error(err)
	}
	src.Version = "99.0.0"
	if _, err := loader.Chart(t.Context(), src); !errors.Is(err, ErrInvalidChart) {
		t.Errorf("another version: %v", err)
	}
	if _, ok := loader.Cached(src); ok {
		t.Error("the cache has a chart of another version")
	}
}

// TestLoaderRequiresVersion checks that a signed chart with the tag of another version is refused, also if it is
// cached.
func TestLoaderRequiresVersion(t *testing.T) {
	t.Parallel()
	loader, src := newLoader(t, Limits{}), source("versioned", demo(t), nil)
	made, err := loader.Chart(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	own := made.Metadata.Version
	for version, want := range map[string]bool{
		own: true, "99.0.0": false, own + "+other": false, "": true,
	} {
		src.TagVersion = version
		_, err := loader.Chart(t.Context(), src)
		if (err == nil) != want || err != nil && !errors.Is(err, ErrInvalidChart) {
			t.Errorf("%s: %v", version, err)
		}
		if _, ok := loader.Cached(src); ok != want {
			t.Errorf("%s: the cache has the chart: %t", version, ok)
		}
	}
	dated := source("dated", []byte(subchart(t, "demo", "2026.01.09")), nil)
	files := flux(t, map[string]string{"a.yaml": configMap("a")})
	dated.TagVersion, files.TagVersion = "2026.1.9", "99.0.0"
	for name, src := range map[string]Source{"leading zeros": dated, "an artifact that is not a chart": files} {
		if _, err := loader.Chart(t.Context(), src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
