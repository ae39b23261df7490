// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrepo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

// freely reserves any memory.
func freely(int64) error { return nil }

var hash = strings.Repeat("0123456789abcdef", 4)

func TestParseIndex(t *testing.T) {
	t.Parallel()
	entries := "version: 1.0.0\n    digest: " + hash + "\n    urls:\n    - a.tgz\n"
	for name, tc := range map[string]struct {
		text string
		// want contains the versions of the chart a, and their URLs.
		want    string
		skipped int
	}{
		"as Helm writes it": {"apiVersion: v1\nentries:\n  a:\n  - apiVersion: v2\n    " + entries +
			"generated: \"2026\"\n", "1.0.0 [a.tgz]", 0},
		"indented lists": {"entries:\n  a:\n    - " + strings.ReplaceAll(entries, "\n    ", "\n      ") + "  b: []\n",
			"1.0.0 [a.tgz]", 0},
		"a dash alone": {"entries:\n  a:\n  -\n      version: \"1.0.0\"\n      urls: [a.tgz]\n", "1.0.0 [a.tgz]", 0},
		"flow entries": {"entries:\n  'a':\n  - {version: 1.0.0, urls: [a.tgz],\n     icon: x}\n", "1.0.0 [a.tgz]", 0},
		"comments": {"# c\n---\nentries: # d\n  # e\n  \"a\": # f\n  # g\n  - version: 1.0.0 # h\n    # i\n" +
			"    urls: [a.tgz]\n...\nentries: x\n", "1.0.0 [a.tgz]", 0},
		"Windows": {"entries:\r\n  a:\r\n  - version: 1.0.0\r\n    urls:\r\n    - a.tgz\r\n", "1.0.0 [a.tgz]", 0},
		"text that looks like entries": {"entries:\n  a:\n  - description: |\n      urls:\n      - evil\n" +
			"      version: 6.6.6\n" +
			"    annotations:\n      version: 7.7.7\n    " + entries, "1.0.0 [a.tgz]", 0},
		"a numeric version": {"entries:\n  a:\n  - version: 1.10\n    urls: [a.tgz]\n", "1.1 [a.tgz]", 0},
		"entries cannot be read": {"entries:\n  a:\n  - version: [x]\n    urls: [a.tgz]\n  - version: 1.0.0\n" +
			"  - version: 1.1.0\n" +
			"    urls: [a.tgz]\n    digest: md5\n  - version: 2.0.0\n    urls: [b.tgz]\n", "2.0.0 [b.tgz]", 3},
		"other charts": {"entries:\n  b:\n  - version: 9.9.9\n    urls: [b.tgz]\n  a:\n  - " + entries +
			"  c:\n  - version: 8.8.8\n    urls: [c.tgz]\n", "1.0.0 [a.tgz]", 0},
		"other keys": {"x:\n  entries:\n    a: 1\nentries:\n  a:\n  - " + entries + "y:\n  a:\n  - version: 5.0.0\n",
			"1.0.0 [a.tgz]", 0},
		"an alias": {"entries:\n  a:\n  - version: 1.0.0\n    urls: [a.tgz]\n    created: {x: &x y, z: [*x, *x]}\n" +
			"  - version: 2.0.0\n    urls: [b.tgz]\n", "2.0.0 [b.tgz]", 1},
		"a directive": {"entries:\n  a:\n  - version: 1.0.0\n    urls: [a.tgz]\r...\r%TAG ! tag:x,\r---\r!a {}\n" +
			"  - version: 2.0.0\n    urls: [b.tgz]\n", "2.0.0 [b.tgz]", 1},
		"no charts": {"entries: {}\n", "", 0},
		"nothing":   {"entries:\ngenerated: x\n", "", 0},
		"JSON": {`{"generated": {"x": [1]}, "entries": {"b": null, ` +
			`"a": [{"version": "1.0.0", "urls": ["a.tgz"]}, {"version": 1}]}}`, "1.0.0 [a.tgz]", 1},
		"a byte order": {"\ufeffentries:\n  a:\n  - " + entries, "1.0.0 [a.tgz]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseIndex(strings.NewReader(tc.text), freely)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, e := range got.charts["a"] {
				found = append(found, fmt.Sprint(e.version, " ", e.urls))
			}
			if text := strings.Join(found, ", "); text != tc.want || got.skipped != tc.skipped {
				t.Errorf("got %q, %d skipped, want %q, %d", text, got.skipped, tc.want, tc.skipped)
			}
		})
	}
}

func TestParseIndexRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want string
	}{
		"nothing":         {"", "empty"},
		"another file":    {"a: b\n", "no \"entries\""},
		"a flow":          {"entries: {a: []}\n", "must be a block"},
		"a text":          {"entries:\n  some text\n", "not supported"},
		"a list":          {"entries:\n- a\n", "not supported"},
		"a flow of a":     {"entries:\n  a: [x]\n", "not supported"},
		"broken JSON":     {`{"entries": {"a": [`, "not valid JSON"},
		"JSON of a list":  {`{"entries": ["a"]}`, "in place of an object"},
		"no JSON entries": {`{"a": 1}`, "no \"entries\""},
		"a long line":     {"entries:\n  a:\n  - icon: " + strings.Repeat("x", maxLine), "a line has more"},
		"a long entry": {"entries:\n  a:\n  - urls:\n" + strings.Repeat("    - "+strings.Repeat("u", 1000)+"\n", 70),
			"an entry of chart"},
		"a long JSON entry": {`{"entries": {"a": [{"x": "` + strings.Repeat("x", 2*maxLine) + `"}]}}`, "an entry has more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseIndex(strings.NewReader(tc.text), freely); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestParseIndexAsHelm compares the entries with Helm's result for an index that Helm wrote.
func TestParseIndexAsHelm(t *testing.T) {
	t.Parallel()
	index := repo.NewIndexFile()
	for c := range 20 {
		for v := range 30 {
			meta := &chart.Metadata{APIVersion: "v2", Name: fmt.Sprintf("chart-%d", c), Version: fmt.Sprintf("1.%d.0", v),
				Description: "first: line\n\n- urls:\n  - x\n\n\ttabs # and \"quotes\"", Icon: "data:" + strings.Repeat("x", 2000),
				Annotations: map[string]string{"version": "- version: 3.0.0\n  urls: [y]\n"},
				Keywords:    []string{"- a", "b: c"}}
			file := fmt.Sprintf("%s-%s.tgz", meta.Name, meta.Version)
			if err := index.MustAdd(meta, file, "https://example.com", hash); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := yaml.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseIndex(strings.NewReader(string(data)), freely)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.charts) != len(index.Entries) || got.skipped != 0 {
		t.Fatalf("%d charts, %d skipped, want %d", len(got.charts), got.skipped, len(index.Entries))
	}
	for name, versions := range index.Entries {
		for i, want := range versions {
			e := got.charts[name][i]
			if e.version != want.Version || e.digest != "sha256:"+want.Digest || e.urls[0] != want.URLs[0] {
				t.Fatalf("%s %d: got %+v, want %+v", name, i, e, want)
			}
		}
	}
}

// largeIndex writes an index of about 25 MB, which is the size in the largest public repositories. It does not hold the
// index in memory.
func largeIndex(w io.Writer, items int) {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "apiVersion: v1\nentries:\n")
	for i := range items {
		if i%100 == 0 {
			fmt.Fprintf(out, "  chart-%d:\n", i/100)
		}
		fmt.Fprintf(out, "  - annotations:\n      category: Database\n      images: |\n%s    apiVersion: v2\n"+
			"    appVersion: 1.2.%d\n"+
			"    created: \"2026-01-01T00:00:00Z\"\n    description: %s\n    digest: %064x\n    name: chart-%d\n    urls:\n"+
			"    - https://charts.example.com/files/chart-%d-1.0.%d.tgz\n    version: 1.0.%d\n",
			strings.Repeat("        - name: image\n          image: docker.io/example/image:1\n", 15), i,
			strings.Repeat("text ", 40), i, i/100, i/100, i%100, i%100)
	}
	_ = out.Flush()
}

// TestLargeIndexNeedsLittleMemory checks that the memory depends on the kept entries and not on the size of the file.
func TestLargeIndexNeedsLittleMemory(t *testing.T) {
	const items = 15_000
	from, to := io.Pipe()
	go func() {
		largeIndex(to, items)
		_ = to.Close()
	}()
	counted := &countingReader{from: from}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, err := parseIndex(counted, freely)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d MB read, %d MB kept, %d MB by the count", counted.bytes>>20, kept>>20, got.bytes>>20)
	if len(got.charts["chart-149"]) != 100 || counted.bytes < 20<<20 {
		t.Fatalf("%d versions of %d bytes", len(got.charts["chart-149"]), counted.bytes)
	}
	if kept > 12<<20 || kept > 2*got.bytes {
		t.Errorf("%d bytes are kept, and %d are counted", kept, got.bytes)
	}
	runtime.KeepAlive(got)
}

type countingReader struct {
	from  io.Reader
	bytes int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.bytes += int64(n)
	return n, err
}

func TestLimits(t *testing.T) {
	t.Parallel()
	_, err := io.Copy(io.Discard, &limitedReader{from: strings.NewReader("12345"), left: 4})
	if !errors.Is(err, errTooLarge) {
		t.Errorf("%v, want an error of the limit", err)
	}
	found := &catalog{charts: map[string][]entry{}, bytes: maxIndex}
	if err := found.add("a", &rawEntry{Version: "1.0.0", URLs: []string{"x"}}); !errors.Is(err, errTooLarge) {
		t.Errorf("%v, want an error of the limit", err)
	}
	var reserved []int64
	found = &catalog{charts: map[string][]entry{}, reserve: func(bytes int64) error {
		if len(reserved) == 2 {
			return bytebudget.ErrExhausted
		}
		reserved = append(reserved, bytes)
		return nil
	}}
	raw := &rawEntry{Version: "1.0.0", URLs: []string{strings.Repeat("u", maxURL)}}
	for err = nil; err == nil; {
		err = found.add("a", raw)
	}
	if !errors.Is(err, bytebudget.ErrExhausted) || found.bytes <= 2*roomStep || found.bytes > 3*roomStep+maxURL {
		t.Errorf("%v after %d bytes, reserved %v", err, found.bytes, reserved)
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add("entries:\n  a:\n  - version: 1.0.0\n    urls: [x]\n")
	f.Add(`{"entries": {"a": [{"version": "1", "urls": ["x"]}]}}`)
	f.Add("entries:\n  a:\n  -\n")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseIndex(strings.NewReader(text), freely)
		if err != nil || found == nil {
			return
		}
		for _, entries := range found.charts {
			for _, e := range entries {
				if e.version == "" || len(e.urls) > maxURLs {
					t.Errorf("entry %+v", e)
				}
			}
		}
	})
}

// TestNameKeepsNoLine checks that the name of a chart does not keep its whole line in memory. It measures memory, so it
// does not run in parallel with other tests.
func TestNameKeepsNoLine(t *testing.T) {
	const names = 32
	var text strings.Builder
	text.WriteString("entries:\n")
	for i := range names {
		fmt.Fprintf(&text, "  chart-%d: #%s\n  - version: 1.0.0\n    urls: [a.tgz]\n", i, strings.Repeat("x", 900_000))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	found, err := parseIndex(strings.NewReader(text.String()), freely)
	if err != nil || len(found.charts) != names {
		t.Fatalf("%d charts, %v", len(found.charts), err)
	}
	if found.bytes < names*2*entryOverhead {
		t.Errorf("%d bytes are counted for %d charts", found.bytes, names)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 4<<20 {
		t.Errorf("the index keeps %d bytes", kept)
	}
	runtime.KeepAlive(found)
	runtime.KeepAlive(text)
}
