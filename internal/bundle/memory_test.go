// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// testBudget is the size of a budget in tests, in bytes. A registry has 16 MiB.
const testBudget = 64 << 20

// broken ends a text with a syntax error. A test that gets another error shows that the text was not parsed.
const broken = "}]}"

// values returns YAML fields with a number of values. The parse of 18,000 values needs about 7.3 MiB.
func values(n int) string { return "l: [" + strings.Repeat("{a: 0},", n/3) + "]\n" }

// large returns an object with additional fields.
func large(name, fields string) string {
	return "apiVersion: v1\nkind: Large\nmetadata: {name: " + name + "}\n" + fields
}

// withTaken returns a Loader whose budget has only a number of free bytes.
func withTaken(t *testing.T, free int64, runner sandbox.Runner) (*Loader, *bytebudget.Budget, *bytebudget.Lease) {
	t.Helper()
	budget := bytebudget.New(testBudget)
	taken, err := budget.Acquire(t.Context(), bytebudget.Owner{}, testBudget-free)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(taken.Release)
	return NewBoundedLoader(Limits{}, runner, budget), budget, taken
}

func owned(src Source) Source {
	src.Owner = bytebudget.Owner{Tenant: "a", Host: "a"}
	return src
}

// TestLoaderReservesParsedTexts checks that a text reserves memory for its parse before it is parsed or weighed with
// its aliases. The reservation fails without waiting if the memory is used up or never enough, and then holds nothing.
func TestLoaderReservesParsedTexts(t *testing.T) {
	t.Parallel()
	chart := func(files ...entry) Source { return source("texts", demo(t, files...), nil) }
	withValues := func(text string) Source {
		return source("texts", pack(t, entry{name: "l/Chart.yaml", data: chartYAML},
			entry{name: "l/values.yaml", data: text}), nil)
	}
	subcharts := func(n int, last string) Source {
		var files []entry
		for i := range n {
			folder := fmt.Sprintf("demo/charts/s%d/", i)
			files = append(files, entry{name: folder + "Chart.yaml", data: chartYAML},
				entry{name: folder + "values.yaml", data: values(18_000)})
		}
		return chart(append(files, entry{name: "demo/charts/z/Chart.yaml", data: chartYAML + last})...)
	}
	folder := func(name, text string) Source { return flux(t, map[string]string{name: text}) }
	aliases := func(n int) string { return "a: &a text\nb: *a\n" + values(n) }
	json := func(n int) string {
		return `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"l":[` + strings.Repeat(`{"a":0},`, n/3) + "0]}"
	}
	crds := func(text string) Source { return withTemplates(flux(t, map[string]string{"crd.yaml": crdText + text})) }
	lists := "apiVersion: v1\nkind: List\nitems: [" + strings.Repeat("{a: 0},", 15_000) + "]\n"
	for name, tc := range map[string]struct {
		src Source
		// free is how many bytes of the budget are free.
		free int64
		want error
	}{
		"values":                         {withValues(values(18_000)), testBudget, nil},
		"values that are never parsed":   {withValues(values(45_000) + broken), testBudget, ErrTooLarge},
		"values that are parsed later":   {withValues(values(18_000) + broken), 7 << 20, bytebudget.ErrExhausted},
		"usual values":                   {withValues(values(9000)), 0, nil},
		"metadata":                       {subcharts(1, values(45_000)+broken), testBudget, ErrTooLarge},
		"values of subcharts":            {subcharts(3, ""), testBudget, nil},
		"values of too many subcharts":   {subcharts(4, broken), testBudget, ErrTooLarge},
		"aliases in values":              {withValues(aliases(18_000)), testBudget, nil},
		"aliases that are never weighed": {withValues(aliases(45_000) + broken), testBudget, ErrTooLarge},
		"aliases that are weighed later": {withValues(aliases(18_000) + broken), 7 << 20, bytebudget.ErrExhausted},
		"text with escapes":              {withValues("a: " + strings.Repeat("<", 700_000)), testBudget, ErrTooLarge},
		"text without escapes":           {withValues("a: " + strings.Repeat("b", 700_000)), testBudget, nil},
		"a schema":                       {chart(entry{name: "demo/values.schema.json", data: json(45_000)}), testBudget, nil},

		"a document":                            {folder("a.yaml", large("a", values(18_000))), testBudget, nil},
		"a document that is never parsed":       {folder("a.yaml", large("a", values(45_000)+broken)), testBudget, ErrTooLarge},
		"a document that is parsed later":       {folder("a.yaml", large("a", values(18_000)+broken)), 7 << 20, bytebudget.ErrExhausted},
		"a usual document":                      {folder("a.yaml", large("a", values(3000))), 0, nil},
		"a document with aliases":               {folder("a.yaml", large("a", aliases(45_000)+broken)), testBudget, ErrTooLarge},
		"a file of JSON":                        {folder("a.json", json(18_000)), testBudget, nil},
		"a file of JSON that is never parsed":   {folder("a.json", json(45_000)+broken), testBudget, ErrTooLarge},
		"a list":                                {folder("a.yaml", lists+broken), testBudget, ErrTooLarge},
		"a template":                            {withTemplates(folder("a.yaml", "{{x}} "+values(45_000))), testBudget, nil},
		"a file with CRDs":                      {crds(values(45_000)), testBudget, ErrTooLarge},
		"a file with CRDs that is parsed later": {crds(values(18_000)), 7 << 20, bytebudget.ErrExhausted},
		"options of Fleet that are parsed later": {folder("fleet.yaml", fleetOptions+values(18_000)), 7 << 20,
			bytebudget.ErrExhausted},
		"a file that is written as YAML": {folder("a.yaml", large("a", values(7000))), 6 << 20, bytebudget.ErrExhausted},
		"the output of a kustomization": {flux(t, map[string]string{"a.yaml": large("a", values(45_000)),
			"kustomization.yaml": "resources: [a.yaml]\n"}), testBudget, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, budget, taken := withTaken(t, tc.free, testRunner)
			made, err := l.Chart(t.Context(), owned(tc.src))
			if !errors.Is(err, tc.want) || (made != nil) != (tc.want == nil) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if tc.want != nil && !strings.Contains(fmt.Sprint(err), "MiB of memory while it is unpacked and parsed") {
				t.Errorf("the error does not name the memory: %v", err)
			}
			if budget.InUse() != taken.Held() {
				t.Errorf("%d bytes are held after the parse", budget.InUse()-taken.Held())
			}
		})
	}
}

// TestLoaderParsesLater checks that an artifact that found no memory is read when there is memory, and that the first
// failure does not change the chart.
func TestLoaderParsesLater(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	l, _, taken := withTaken(t, 7<<20, testRunner)
	src := owned(withTemplates(flux(t, map[string]string{"crd.yaml": crdText + values(18_000),
		"fleet.yaml": fleetOptions + values(18_000), "a.yaml": configMap("a")})))
	_, err := l.Chart(t.Context(), src)
	g.Expect(err).To(MatchError(bytebudget.ErrExhausted))
	taken.Release()
	made, err := l.Chart(t.Context(), src)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filesOfChart(made)).To(Equal([]string{"crds/crd.yaml", "templates/a.yaml"}))
}

// TestLoaderCountsParsedObjects checks that the objects that were read before a document count, and that a document
// does not count after it was read.
func TestLoaderCountsParsedObjects(t *testing.T) {
	t.Parallel()
	folder := func(n int, fields string) Source {
		files := map[string]string{}
		for i := range n {
			name := fmt.Sprint("a", i)
			files[name+".yaml"] = large(name, fields)
		}
		return owned(flux(t, files))
	}
	text := "a: " + strings.Repeat("b", 1<<20) + "\n" // the parse needs 7 MiB, and the object 1 MiB
	for name, tc := range map[string]struct {
		src  Source
		want error
	}{
		"many small objects with many values": {folder(6, values(18_000)), nil},
		"some large objects":                  {folder(3, text), nil},
		"too many large objects":              {folder(6, text), ErrTooLarge},
		"templates, which are no objects":     {withTemplates(folder(5, text)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _, _ := withTaken(t, testBudget, testRunner)
			if _, err := l.Chart(t.Context(), tc.src); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

// watchedRunner stores how many bytes of a budget are in use while it builds.
type watchedRunner struct {
	sandbox.Runner
	budget *bytebudget.Budget
	inUse  atomic.Int64
}

// Run implements sandbox.Runner.
func (w *watchedRunner) Run(ctx context.Context, request sandbox.Request) ([]byte, error) {
	w.inUse.Store(w.budget.InUse())
	return w.Runner.Run(ctx, request)
}

// TestLoaderReleasesParsesBeforeBuild checks that an artifact does not hold the memory of its parses while another
// process builds a kustomization, which may take minutes.
func TestLoaderReleasesParsesBeforeBuild(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	budget := bytebudget.New(testBudget)
	runner := &watchedRunner{Runner: testRunner, budget: budget}
	src := owned(flux(t, map[string]string{"a.yaml": large("a", values(18_000)), "b/a.yaml": configMap("b"),
		"b/kustomization.yaml": "resources: [a.yaml]\n", "docs.bin": string(make([]byte, 2<<20))}))
	made, err := NewBoundedLoader(Limits{}, runner, budget).Chart(t.Context(), src)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filesOfChart(made)).To(HaveLen(2))
	g.Expect(runner.inUse.Load()).To(And(BeNumerically(">", 3*(2<<20)), BeNumerically("<", 7<<20)),
		"files and copies, and no parse")
}

// TestLargeObjects checks that a large object is written as JSON, without the memory for a writer of YAML.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fields := "text: \"{{ x }} <no value>\"\n" + values(9000)
	made := mustLoad(t, flux(t, map[string]string{"a.yaml": configMap("a"), "b.yaml": large("b", fields),
		"crd.yaml": crdText + values(9000)}))
	g.Expect(filesOfChart(made)).To(HaveLen(3))
	isJSON := func(name string) bool {
		for _, file := range slices.Concat(made.Templates, made.Files) {
			if strings.Contains(file.Name, name) {
				return strings.HasPrefix(string(file.Data), "{")
			}
		}
		t.Errorf("there is no %s", name)
		return false
	}
	g.Expect(isJSON("ConfigMap_a")).To(BeFalse())
	g.Expect(isJSON("Large_b")).To(BeTrue())
	g.Expect(isJSON("dishes")).To(BeTrue())
	b, _ := rendered(t, made, nil)["b"].(map[string]any)
	g.Expect(b["text"]).To(Equal("{{ x }} <no value>"))
	g.Expect(b["l"]).To(HaveLen(3000))
}

// TestParsedValuesKeepHalf checks that at most half of the memory for a parse stays in a chart.
func TestParsedValuesKeepHalf(t *testing.T) {
	t.Parallel()
	const n = 3000
	for name, text := range map[string]string{
		"maps": values(n), "block maps": manyMaps(n), "empty maps": "l: [" + strings.Repeat("{},", n) + "]",
		"pairs": "l: [" + strings.Repeat("a: ,", n) + "]", "lists": "l: [" + strings.Repeat("[[[]]],", n) + "]",
		"nested maps": "l: [" + strings.Repeat("{a: {a: {a: 0}}},", n) + "]", "items": "l:\n" + strings.Repeat("- abc\n", n),
		"text": "a: " + strings.Repeat("b<", 100*n),
	} {
		var parsed map[string]any
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			t.Fatal(err)
		}
		kept, cost := referencedBytes(reflect.ValueOf(parsed)), yamlweight.Of([]byte(text)).ParseCost()
		if kept > cost/2 {
			t.Errorf("%s: %d of %d bytes stay", name, kept, cost)
		}
	}
}
