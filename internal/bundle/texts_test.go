// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"helm.sh/helm/v3/pkg/chart"
)

// manyMaps returns YAML that needs 50 times its size after it is parsed.
func manyMaps(n int) string { return "a:\n" + strings.Repeat("- a: 1\n", n) }

func TestTextsAreLimited(t *testing.T) {
	t.Parallel()
	limits := Limits{TextBytes: 20_000, TextTokens: 1000}
	long := strings.Repeat("x", 5000)
	values := func(text string) []entry { return []entry{{name: "l/values.yaml", data: text}} }
	var parts, schemas []entry
	for i := range 6 {
		folder := fmt.Sprintf("l/charts/s%d/", i)
		parts = append(parts, entry{name: folder + "Chart.yaml",
			data: fmt.Sprintf("apiVersion: v2\nname: s%d\nversion: 1.0.0\n", i)},
			entry{name: folder + "values.yaml", data: manyMaps(70)})
		schemas = append(schemas, entry{name: folder + "Chart.yaml",
			data: fmt.Sprintf("apiVersion: v2\nname: s%d\nversion: 1.0.0\n", i)},
			entry{name: folder + "values.schema.json", data: "[" + strings.Repeat("{},", 90) + "{}]"})
	}
	packed := func(text string) []entry {
		return []entry{{name: "l/charts/s.tgz", data: subchart(t, "s", "1.0.0", entry{name: "s/values.yaml", data: text})}}
	}
	for _, tc := range []struct {
		name    string
		entries []entry
		want    error
		detail  string
	}{
		{"many maps", values(manyMaps(490)), nil, ""},
		{"too many maps", values(manyMaps(510)), ErrTooLarge, "more than 1000 values"},
		{"lists in lists", values("a: [" + strings.Repeat("[],", 600) + "]"), ErrTooLarge, "more than 1000 values"},
		{"pairs in a list", values("a: [" + strings.Repeat("a: ,", 600) + "]"), ErrTooLarge, "more than 1000 values"},
		{"quoted keys", values(`{"a":[` + strings.Repeat(`{"a":1},`, 400) + "]}"), ErrTooLarge, "more than 1000 values"},
		{"complex keys", values(strings.Repeat("? a\n", 1100)), ErrTooLarge, "more than 1000 values"},
		{"items on lines of their own", values("a:\n" + strings.Repeat("-\n", 1100)), ErrTooLarge, "more than 1000 values"},
		{"items before lines of Unicode", values("a:\n" + strings.Repeat("-\u2028", 1100)), ErrTooLarge,
			"more than 1000 values"},
		{"names with hyphens", values("a: " + strings.Repeat("-a", 3000)), nil, ""},
		{"long text", values("a: " + strings.Repeat("b", 19_000)), nil, ""},
		{"too long text", values("a: " + strings.Repeat("b", 21_000)), ErrTooLarge, "more than 20000 bytes"},
		{"long comments", values("#" + strings.Repeat("b", 21_000)), ErrTooLarge, "more than 20000 bytes"},
		{"subcharts together", parts, nil, ""},
		{"subcharts too large together", append(values(manyMaps(90)), parts...), ErrTooLarge, "more than 1000 values"},
		{"packed subchart", packed(manyMaps(510)), ErrTooLarge, "more than 1000 values"},
		{"lock", []entry{{name: "l/Chart.lock", data: "dependencies: [" + strings.Repeat("{},", 510) + "]"}}, ErrTooLarge,
			"more than 1000 values"},
		{"requirements", []entry{{name: "l/requirements.yaml", data: "dependencies: [" + strings.Repeat("{},", 510) + "]"}},
			ErrTooLarge, "more than 1000 values"},
		{"lock of requirements", []entry{{name: "l/requirements.lock",
			data: "dependencies: [" + strings.Repeat("{},", 510) + "]"}}, ErrTooLarge, "more than 1000 values"},
		{"metadata", []entry{{name: "l/charts/x/Chart.yaml",
			data: chartYAML + "maintainers: [" + strings.Repeat("{},", 510) + "]"}}, ErrTooLarge, "more than 1000 values"},
		{"schemas on their own", append(values(manyMaps(490)), schemas[:4]...), nil, ""},
		{"schemas too large together", schemas, ErrTooLarge, "values.schema.json"},
		{"templates and files", []entry{{name: "l/templates/x", data: manyMaps(3000)},
			{name: "l/files/values.yaml", data: manyMaps(3000)}}, nil, ""},
		{"aliases", values("a: &a {b: c}\nd: [*a, *a]\ne:\n  <<: *a\n"), nil, ""},
		{"maps by aliases", values("a: &a {b: c, d: e}\nf: [" + strings.Repeat("*a,", 210) + "]"), ErrTooLarge,
			"more than 1000 values"},
		{"text by aliases", values("a: &a " + long + "\nd: [*a, *a, *a, *a]"), ErrTooLarge, "more than 20000 bytes"},
		{"text by aliases of aliases", values("a: &a " + long + "\nb: &b [*a]\nc: &c {<<: {x: *b}}\nd: [*a, *b, *c]"),
			ErrTooLarge, "more than 20000 bytes"},
		{"text by quoted aliases", values("{\"a\":&a " + long + ",\"b\":*a ,\"c\":*a ,\"d\":*a ,\"e\":*a }"), ErrTooLarge,
			"more than 20000 bytes"},
		{"what looks like aliases", values("# R&D, see *this*\na: 'b &c *c'\n"), nil, ""},
		{"anchor in itself", values("a: &a [*a]\n"), ErrInvalidChart, "itself"},
		{"unknown anchor", values("a: &a 1\nb: *c\n"), ErrInvalidChart, "values.yaml"},
		{"tags by a directive", values("%TAG ! tag:" + long + ",2000:\n---\na: [!x a, !x b]\n"), ErrInvalidChart, "%TAG"},
		{"placeholder", values("a: \"%TAG%\"\nb: c %TAG d\n"), nil, ""},
		{"two bytes a character", values("\xff\xfea\x00:\x00 \x001\x00\n\x00"), ErrInvalidChart, "UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			data := pack(t, append([]entry{{name: "l/Chart.yaml", data: chartYAML}}, tc.entries...)...)
			_, err := newLoader(t, limits).Chart(t.Context(), source("d", data, nil))
			if !errors.Is(err, tc.want) || tc.want != nil && !strings.Contains(fmt.Sprint(err), tc.detail) {
				t.Errorf("error = %v, want %v with %q", err, tc.want, tc.detail)
			}
		})
	}
}

// TestTextBombs loads charts of some KiB whose parsed text would need hundreds of MiB. It checks the memory that the
// refusal needs.
func TestTextBombs(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, text := range map[string]string{
		"maps":    "a: [" + strings.Repeat("{},", 1_500_000) + "]",
		"text":    "a: &a " + long + "\nb: [" + strings.Repeat("*a,", 1000) + "]",
		"tags":    "%TAG ! tag:" + long + ",2000:\n---\na: [" + strings.Repeat("!x a,", 1000) + "]",
		"aliases": "a: &a [1]\nb: &b [" + strings.Repeat("*a,", 5000) + "]\nc: [" + strings.Repeat("*b,", 50) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			data := pack(t, entry{name: "l/Chart.yaml", data: chartYAML}, entry{name: "l/values.yaml", data: text})
			if len(data) > 32<<10 {
				t.Fatalf("%d bytes are no bomb", len(data))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := newLoader(t, Limits{}).Chart(t.Context(), source("d", data, nil))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("it was loaded")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 40<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
		})
	}
}

// TestCacheCountsParsedValues checks that the cache counts the memory of the parsed values.
func TestCacheCountsParsedValues(t *testing.T) {
	t.Parallel()
	text := manyMaps(50_000)
	l := newLoader(t, Limits{CacheBytes: 64 << 20})
	data := pack(t, entry{name: "l/Chart.yaml", data: chartYAML}, entry{name: "l/charts/s/Chart.yaml", data: chartYAML},
		entry{name: "l/charts/s/values.yaml", data: text})
	if _, err := l.Chart(t.Context(), source("d", data, nil)); err != nil {
		t.Fatal(err)
	}
	// A map with one entry needs 312 bytes. Its interface value needs 16 bytes, and its key 1 byte.
	_, bytes := l.charts.Stats()
	if least, most := int64(50_000*300), int64(50_000*400); bytes < least || bytes > most {
		t.Errorf("%d bytes of YAML are counted as %d, want %d to %d", len(text), bytes, least, most)
	}
}

func TestFootprint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		chart *chart.Chart
		want  int64
	}{
		{"nothing", &chart.Chart{}, 0},
		{"files", &chart.Chart{Templates: []*chart.File{{Name: "abc", Data: []byte("not counted")}},
			Files: []*chart.File{{Name: "d"}}}, 2*48 + 4},
		{"no values", &chart.Chart{Values: map[string]any{}}, mapHeader},
		{"scalar", &chart.Chart{Values: map[string]any{"a": 1.5}}, mapHeader + mapGroup*33 + 1 + 8},
		{"map", &chart.Chart{Values: map[string]any{"a": map[string]any{}}}, mapHeader + mapGroup*33 + 1 + mapHeader},
		{"list", &chart.Chart{Values: map[string]any{"a": []any{nil, "bc"}}},
			mapHeader + mapGroup*33 + 1 + 24 + 2*16 + 16 + 2},
		{"lock", &chart.Chart{Lock: &chart.Lock{Digest: "abc"}}, 64 + 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := footprint(tc.chart); got != tc.want {
				t.Errorf("footprint = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestConcurrentParsesAreLimited(t *testing.T) {
	t.Parallel()
	data := demo(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLoader(t, Limits{})
		most := l.slots.pool.Allowance("")
		for range most {
			if err := l.slots.acquire(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		done := false
		go func() {
			if _, err := l.Chart(t.Context(), source("d", data, nil)); err != nil {
				t.Error(err)
			}
			done = true
		}()
		synctest.Wait()
		if done {
			t.Error("a parse did not wait for others to end")
		}
		l.slots.release("")
		synctest.Wait()
		if !done || l.slots.pool.Total() != most-1 {
			t.Errorf("done %t, %d of %d turns taken", done, l.slots.pool.Total(), most)
		}
	})
}
