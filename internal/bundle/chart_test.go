// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
)

const chartYAML = "apiVersion: v2\nname: demo\nversion: 1.2.3\n"

// entry is an entry of a test archive. It is a file if typeflag is zero.
type entry struct {
	name     string
	data     string
	typeflag byte
}

// pack returns an archive with entries in the given order.
func pack(tb testing.TB, entries ...entry) []byte {
	tb.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.data)), Typeflag: e.typeflag}
		if e.typeflag == 0 {
			header.Typeflag = tar.TypeReg
		} else {
			header.Size, header.Linkname = 0, "/etc/passwd"
		}
		if err := archive.WriteHeader(header); err != nil {
			tb.Fatal(err)
		}
		if _, err := archive.Write([]byte(e.data)); header.Size > 0 && err != nil {
			tb.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		tb.Fatal(err)
	}
	return gzipped(tb, out.Bytes())
}

func gzipped(tb testing.TB, data []byte) []byte {
	tb.Helper()
	return gzippedAt(tb, gzip.DefaultCompression, data)
}

func gzippedAt(tb testing.TB, level int, data []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := zipped.Write(data); err != nil {
		tb.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func gunzip(tb testing.TB, data []byte) []byte {
	tb.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	out, err := io.ReadAll(unzipped)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// demo returns a small chart with additional entries.
func demo(tb testing.TB, more ...entry) []byte {
	return pack(tb, append([]entry{
		{name: "demo/Chart.yaml", data: chartYAML},
		{name: "demo/values.yaml", data: "image: {tag: v1}\nlist: [1, {a: b}]\n"},
		{name: "demo/templates/cm.yaml", data: "kind: ConfigMap\n"},
	}, more...)...)
}

func subchart(tb testing.TB, name, version string, more ...entry) string {
	return string(pack(tb, append([]entry{
		{name: name + "/Chart.yaml", data: fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)},
		{name: name + "/templates/x.yaml", data: "kind: Service\n"},
	}, more...)...))
}

// source returns an artifact with a packed chart. reads counts the calls of ReadLayer.
func source(digest string, data []byte, reads *atomic.Int64) Source {
	return Source{
		Digest: digest, Manifest: Manifest{ConfigMediaType: ChartConfigMediaType, Layers: typed(ChartLayerMediaType)},
		ReadLayer: func(context.Context, int) ([]byte, error) {
			if reads != nil {
				reads.Add(1)
			}
			return data, nil
		},
	}
}

func newLoader(tb testing.TB, limits Limits) *Loader {
	tb.Helper()
	return NewLoader(limits, testRunner)
}

// bigChart returns a chart of the size of known monitoring stacks. It has 200 templates, a long values file and ten
// packed subcharts.
func bigChart(tb testing.TB) []byte {
	var values strings.Builder
	var short string
	for i := range 1500 {
		if i == 100 {
			short = values.String()
		}
		fmt.Fprintf(&values,
			"key%d:\n  enabled: true\n  image: {repository: registry.example/app%d, tag: v1.%d}\n  args: [a, b, c]\n", i, i, i)
	}
	entries := []entry{{name: "big/values.yaml", data: values.String()}}
	chartYAML := "apiVersion: v2\nname: big\nversion: 1.0.0\ndependencies:\n"
	for i := range 10 {
		name := fmt.Sprintf("sub%d", i)
		chartYAML += fmt.Sprintf("- {name: %s, version: 1.0.0, repository: \"\", tags: [x], import-values: [{child: a, "+
			"parent: b}]}\n", name)
		entries = append(entries, entry{name: "big/charts/" + name + "-1.0.0.tgz", data: subchart(tb, name, "1.0.0",
			entry{name: name + "/values.yaml", data: short})})
	}
	for i := range 200 {
		entries = append(entries, entry{name: fmt.Sprintf("big/templates/t%d.yaml", i),
			data: strings.Repeat("{{ if .Values.enabled }}kind: ConfigMap{{ end }}\n", 60)})
	}
	return pack(tb, append(entries, entry{name: "big/Chart.yaml", data: chartYAML})...)
}
