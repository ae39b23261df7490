// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
)

func TestChartRefused(t *testing.T) {
	t.Parallel()
	small := Limits{PackedBytes: 4 << 10, UnpackedBytes: 64 << 10, FileBytes: 32 << 10, Files: 60}
	deep := entry{name: "demo/charts/x.tgz", data: subchart(t, "x", "1.0.0")}
	for range unpack.MaxDepth + 1 {
		deep.data = subchart(t, "x", "1.0.0", entry{name: "x/charts/x.tgz", data: deep.data})
	}
	many := make([]entry, 80)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("demo/templates/%d", i)}
	}
	folders, links := make([]entry, 80), make([]entry, 80)
	for i := range folders {
		folders[i] = entry{name: fmt.Sprintf("demo/%d/", i), typeflag: tar.TypeDir}
		links[i] = entry{name: fmt.Sprintf("demo/%d", i), typeflag: tar.TypeSymlink}
	}
	aliases := "a0: &a0 [" + strings.Repeat("x, ", 9) + "x]\n"
	for i := range 9 {
		aliases += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	bomb := func(n int) entry {
		return entry{name: fmt.Sprintf("demo/charts/bomb%d.tgz", n),
			data: subchart(t, "bomb", "1.0.0", entry{name: "bomb/x", data: strings.Repeat("\x00", 30<<10)})}
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
		{"linked template", demo(t, entry{name: "demo/templates/x.yaml", typeflag: tar.TypeSymlink}), ErrInvalidChart,
			"templates/x.yaml"},
		{"hard linked CRD", demo(t, entry{name: "demo/crds/x.yaml", typeflag: tar.TypeLink}), ErrInvalidChart, "crds/x.yaml"},
		{"linked templates", demo(t, entry{name: "demo/templates", typeflag: tar.TypeSymlink}), ErrInvalidChart, "link"},
		{"twice", demo(t, entry{name: "demo/values.yaml", data: "x"}), ErrInvalidChart, "twice"},
		{"control characters", demo(t, entry{name: "demo/a\nb", data: "x"}), ErrInvalidChart, "printable"},
		{"library", pack(t, entry{name: "l/Chart.yaml", data: chartYAML + "type: library\n"}), ErrInvalidChart, "library"},
		{"unknown apiVersion", pack(t, entry{name: "l/Chart.yaml", data: "apiVersion: v9\nname: x\nversion: 1.0.0\n"}),
			ErrInvalidChart, "v9"},
		{"bad version", pack(t, entry{name: "l/Chart.yaml", data: "apiVersion: v2\nname: x\nversion: one\n"}),
			ErrInvalidChart, "version"},
		{"long version", pack(t, entry{name: "l/Chart.yaml",
			data: "apiVersion: v2\nname: x\nversion: 1.0.0-" + strings.Repeat("a", 200)}), ErrInvalidChart, "longer"},
		{"bad values", pack(t, entry{name: "l/Chart.yaml", data: chartYAML}, entry{name: "l/values.yaml", data: "a: [\n"}),
			ErrInvalidChart, "values.yaml"},
		{"null dependency", pack(t, entry{name: "l/Chart.yaml", data: chartYAML + "dependencies: [null]\n"}), ErrInvalidChart,
			"null"},
		{"missing dependency", pack(t,
			entry{name: "l/Chart.yaml", data: chartYAML + "dependencies: [{name: gone, version: 1.0.0, repository: x}]\n"}),
			ErrInvalidChart, "gone"},
		{"broken subchart", demo(t, entry{name: "demo/charts/x.tgz", data: "junk"}), ErrInvalidChart, `charts/x.tgz`},
		{"packed too large", append(demo(t), make([]byte, 8<<10)...), ErrTooLarge, "packed"},
		{"file too large", demo(t, entry{name: "demo/x", data: strings.Repeat("a", 40<<10)}), ErrTooLarge, "demo/x"},
		{"unpacked too large", demo(t, entry{name: "demo/x", data: strings.Repeat("a", 31<<10)},
			entry{name: "demo/y", data: strings.Repeat("a", 31<<10)},
			entry{name: "demo/z", data: strings.Repeat("a", 31<<10)}), ErrTooLarge, "unpacked"},
		{"subcharts too large together", demo(t, bomb(1), bomb(2), bomb(3)), ErrTooLarge, "unpacked"},
		{"too many files", demo(t, many...), ErrTooLarge, "files"},
		{"absolute path from the root", demo(t, entry{name: "/etc/passwd", data: "x"}), ErrInvalidChart, "absolute"},
		{"network path", demo(t, entry{name: `\\\\host\x`, data: "x"}), ErrInvalidChart, "absolute"},
		{"parent path at the front", demo(t, entry{name: "../demo/x", data: "x"}), ErrInvalidChart, "leads out"},
		{"parent path of Windows", demo(t, entry{name: `demo\..\..\x`, data: "x"}), ErrInvalidChart, "leads out"},
		{"parent path in a subchart", demo(t,
			entry{name: "demo/charts/x.tgz", data: subchart(t, "x", "1.0.0", entry{name: "x/../../y", data: "x"})}),
			ErrInvalidChart, "leads out"},
		{"device", demo(t, entry{name: "demo/templates/x", typeflag: tar.TypeBlock}), ErrInvalidChart, "device"},
		{"pipe", demo(t, entry{name: "demo/templates/x", typeflag: tar.TypeFifo}), ErrInvalidChart, "device"},
		{"linked Chart.yaml", pack(t, entry{name: "demo/Chart.yaml", typeflag: tar.TypeLink}), ErrInvalidChart, "link"},
		{"linked subchart", demo(t, entry{name: "demo/charts/x.tgz", typeflag: tar.TypeSymlink}), ErrInvalidChart, "link"},
		{"huge name", demo(t, entry{name: "demo/" + strings.Repeat("a", 1024), data: "x"}), ErrInvalidChart,
			"too long a name"},
		{"twice under two names", demo(t, entry{name: "demo/./templates//cm.yaml", data: "x"}), ErrInvalidChart, "twice"},
		{"twice in two folders", demo(t, entry{name: "other/values.yaml", data: "x"}), ErrInvalidChart, "twice"},
		{"twice as a file and packed",
			demo(t, entry{name: "demo/charts/x~tgz/Chart.yaml", data: "x"},
				entry{name: "demo/charts/x.tgz", data: subchart(t, "x", "1.0.0")}), ErrInvalidChart, "twice"},
		{"empty entries without end", demo(t, folders...), ErrTooLarge, "files"},
		{"links without end", demo(t, links...), ErrTooLarge, "files"},
		{"bomb of values", demo(t, entry{name: "demo/charts/y/Chart.yaml", data: chartYAML},
			entry{name: "demo/charts/y/values.yaml", data: aliases}), ErrTooLarge, "values"},
		{"values nested too deep", demo(t, entry{name: "demo/charts/y/Chart.yaml", data: chartYAML},
			entry{name: "demo/charts/y/values.yaml", data: "a: " + strings.Repeat("[", 20_000)}), ErrInvalidChart,
			"values.yaml"},
		{"large packed file that is no subchart", demo(t, entry{name: "demo/files/x.tgz", data: strings.Repeat("a", 40<<10)}),
			ErrTooLarge, "files/x.tgz"},
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

// zeros returns a gzip stream with the bytes in front, followed by n zero bytes.
func zeros(tb testing.TB, front []byte, n int64) []byte {
	tb.Helper()
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := zipped.Write(front); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.CopyN(zipped, zeroReader{}, n); err != nil {
		tb.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// tarHeader returns the header of a tar entry with a type and a size. The bytes after the header are the content of the
// entry.
func tarHeader(tb testing.TB, name string, typeflag byte, size int64) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size,
		Mode: 0o644}); err != nil {
		tb.Fatal(err)
	}
	header := out.Bytes()
	header[156] = typeflag
	copy(header[148:], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	return header
}

// TestGzipBombs unpacks archives of some KiB that decompress to far more than the limits. It covers all parts of an
// archive that can hold bytes, and checks the memory that the refusal needs.
func TestGzipBombs(t *testing.T) {
	limits := Limits{PackedBytes: 1 << 20, UnpackedBytes: 1 << 20, FileBytes: 1 << 20, Files: 10_000}
	const size = 8 << 20
	// Entries of unknown types are skipped. One entry of 1 MiB is within the limit for decompressed bytes, but many of
	// them are not.
	inner := string(zeros(t, tarHeader(t, "x/README", 'V', 1<<20), 1<<20))
	var many []entry
	for i := range 16 {
		many = append(many, entry{name: fmt.Sprintf("demo/charts/x%d.tgz", i), data: inner})
	}
	for _, tc := range []struct {
		name string
		data []byte
		want error
	}{
		{"a file", zeros(t, tarHeader(t, "demo/values.yaml", tar.TypeReg, size), size), ErrTooLarge},
		{"a file in gzip in gzip", gzipped(t, zeros(t, tarHeader(t, "demo/values.yaml", tar.TypeReg, size), size)),
			ErrInvalidChart},
		{"a skipped entry", zeros(t, tarHeader(t, "demo/README", 'V', size), size), ErrTooLarge},
		{"a long name", zeros(t, tarHeader(t, "demo/x", tar.TypeGNULongName, size), size), ErrInvalidChart},
		{"an extended header", zeros(t, tarHeader(t, "demo/x", tar.TypeXHeader, size), size), ErrInvalidChart},
		{"packed subcharts", demo(t, many...), ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if int64(len(tc.data)) > limits.PackedBytes/4 {
				t.Fatalf("%d bytes are no bomb", len(tc.data))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := unpack.Chart(tc.data, limits, nil)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tc.want) {
				t.Errorf("error = %v, want %v", err, tc.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
		})
	}
}

// FuzzUnpack mutates the tar archive inside the gzip stream. With a mutated gzip stream, nearly all inputs would fail
// at the checksum.
func FuzzUnpack(f *testing.F) {
	for _, packed := range [][]byte{
		demo(f),
		demo(f, entry{name: "demo/charts/x.tgz", data: subchart(f, "x", "1.0.0")}),
		demo(f, entry{name: "demo/charts/x/charts/_y.tgz", data: "x"},
			entry{name: "demo/" + strings.Repeat("long/", 30) + "name", data: "x"}),
		gzipped(f, append(tarHeader(f, "demo/x", 'V', 512), make([]byte, 2048)...)),
		gzipped(f, tarHeader(f, "demo/x", tar.TypeReg, 1<<40)),
		demo(f, entry{name: "demo/link", typeflag: tar.TypeSymlink}, entry{name: `demo\a/../b`, data: "x"}),
	} {
		f.Add(gunzip(f, packed))
	}
	limits := Limits{PackedBytes: 1 << 20, UnpackedBytes: 1 << 20, FileBytes: 1 << 18, Files: 100}.WithDefaults()
	f.Fuzz(func(t *testing.T, data []byte) {
		files, size, err := unpack.Chart(gzippedAt(t, gzip.NoCompression, data), limits, nil)
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
		_, _ = parse(files, limits, nil) // must not panic
	})
}
