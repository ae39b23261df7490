// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// fixedSource returns a source whose data is the same for all Clusters.
func fixedSource(data, path string) ValuesSource {
	return ValuesSource{Origin: "Secret n/s key k", Data: []byte(data), TargetPath: path}
}

// TestLayers checks the order in which values are merged.
func TestLayers(t *testing.T) {
	t.Parallel()
	spec := base()
	spec.ValuesFrom = []ValuesSource{
		fixedSource("a: from\nb: from\nc: from\nd: from\ne: from\nf: from\nlist: [{x: 1}, {x: 2}]", ""),
		{Name: "{{ .Cluster.metadata.name }}-{{ .Release.Name }}"},
		fixedSource("secret", "list[1].token"),
	}
	spec.Values = []byte(`{"b": "values", "c": "values", "d": "values", "e": "values", "f": "values"}`)
	spec.ValuesTemplate = "c: template\nd: template\ne: template\nf: template\n"
	spec.Overrides = []Override{
		{Name: "other", Values: []byte(`{"a": "other"}`)},
		{
			Name: "it", ValuesFrom: []ValuesSource{fixedSource("d: over-from\ne: over-from\nf: over-from", ""), {Name: "it"}},
			Values: []byte(`{"e": "over-values", "f": "over-values"}`), ValuesTemplate: "f: over-template-{{ .Release.Name }}\n",
		},
	}
	program, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	own, over := SourceID{OfSpec, 1}, SourceID{1, 1}
	found, err := program.ClusterSources(t.Context(), sample(), 1)
	if want := []ClusterSource{{own, sample().Cluster["metadata"].(map[string]any)["name"].(string) + "-r"},
		{over, "it"}}; err != nil ||
		!reflect.DeepEqual(found, want) {
		t.Fatalf("got %v, %v, want %v", found, err, want)
	}
	contents := Contents{
		own:  {Origin: "Secret n/own", Data: []byte("a: own\nb: own\nown: 1")},
		over: {Origin: "Secret n/it", Data: []byte("own: 2\ne: own")},
	}
	for range 2 { // The first rendering must not change the input of the second one.
		got, err := program.RenderWith(t.Context(), sample(), contents, 1)
		want := map[string]any{
			"a": "own", "b": "values", "c": "template", "d": "over-from", "e": "over-values", "f": "over-template-r",
			"own":  int64(2),
			"list": []any{map[string]any{"x": int64(1)}, map[string]any{"x": int64(2), "token": "secret"}},
		}
		if err != nil || !reflect.DeepEqual(got.Values, want) {
			t.Fatalf("got %v, %v, want %v", got.Values, err, want)
		}
		got.Values["list"].([]any)[0].(map[string]any)["x"] = "changed"
	}
	got, err := program.Render(t.Context(), sample())
	if err != nil || got.Values["a"] != "from" || got.Values["own"] != nil {
		t.Errorf("without the objects of the Cluster: %v, %v", got.Values, err)
	}
	if found, err := program.ClusterSources(t.Context(), sample(), 0); err != nil || len(found) != 1 {
		t.Errorf("without the override there are %v, %v", found, err)
	}
}

func TestTargetPath(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ below, path, want string }{
		"a key":                    {"{}", "a", `{"a":"1"}`},
		"a string, whatever it is": {"{a: 5}", "a", `{"a":"1"}`},
		"keys":                     {"{a: {c: 2}}", "a.b", `{"a":{"b":"1","c":2}}`},
		"through a text":           {"{a: text}", "a.b", `{"a":{"b":"1"}}`},
		"through null":             {"{a: null}", "a.b", `{"a":{"b":"1"}}`},
		"a dot in a key":           {"{}", `a\.b/c.d`, `{"a.b/c":{"d":"1"}}`},
		"brackets in a key":        {"{}", `a\[0\]`, `{"a[0]":"1"}`},
		"an index":                 {"{a: [x, y]}", "a[1]", `{"a":["x","1"]}`},
		"behind the end":           {"{a: [x]}", "a[2]", `{"a":["x",null,"1"]}`},
		"a new list":               {"{}", "a[0].b", `{"a":[{"b":"1"}]}`},
		"an index of a map":        {"{a: {b: c}}", "a[0]", `{"a":["1"]}`},
		"a list of lists":          {"{a: [[x]]}", "a[0][1]", `{"a":[["x","1"]]}`},
		"a key beyond ASCII":       {"{}", "ä.ö", `{"ä":{"ö":"1"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.ValuesFrom = []ValuesSource{fixedSource(tc.below, ""), fixedSource("1", tc.path)}
			program, err := Compile(spec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := program.Render(t.Context(), sample())
			if err != nil {
				t.Fatal(err)
			}
			if data, _ := encodeJSON(got.Values); string(data) != tc.want {
				t.Errorf("got %s, want %s", data, tc.want)
			}
		})
	}
	for _, path := range []string{".", "a.", ".a", "[0]", "a[", "a[]", "a[-1]", "a[1000]", "a[x]", "a[0]b", "a[0", "a]",
		"a=b", "a,b", `a\`,
		strings.Repeat("a.", maxPathSteps) + "a", "a[99999999999999999999]"} {
		spec := base()
		spec.ValuesFrom = []ValuesSource{fixedSource("s3cret", path)}
		_, err := Compile(spec)
		var invalid *Error
		if !errors.As(err, &invalid) || invalid.Field != "spec.valuesFrom[0].targetPath" ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

func FuzzTargetPath(f *testing.F) {
	for _, seed := range []string{"a.b[0].c", `a\.b`, "a[999][999]", "..", "[", "a[0]."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := parsePath(text)
		if err != nil || path == nil {
			return
		}
		if len(path) > 4 {
			path = path[:4]
		}
		if _, ok := path.set(map[string]any{}, "x").(map[string]any); !ok {
			t.Errorf("%q does not begin with a key", text)
		}
	})
}

func TestClusterSourceErrors(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	id := SourceID{OfSpec, 0}
	for name, tc := range map[string]struct {
		source ValuesSource
		data   string
		reason Reason
		want   string
	}{
		"no YAML": {ValuesSource{Name: "x"}, "a: [" + secret, ReasonInvalidValues,
			"spec.valuesFrom[0] (Secret n/x) line 1: is not valid YAML"},
		"no map": {ValuesSource{Name: "x"}, secret, ReasonInvalidValues,
			"spec.valuesFrom[0] (Secret n/x): is not a map of values"},
		"no text": {ValuesSource{Name: "x", TargetPath: "a"}, secret + "\xff", ReasonInvalidValues,
			"spec.valuesFrom[0] (Secret n/x): is not UTF-8 text"},
		"too large": {ValuesSource{Name: "x"}, secret + strings.Repeat("x", maxDocumentBytes), ReasonLimitExceeded,
			"spec.valuesFrom[0] (Secret n/x): is larger than 1048576 bytes"},
		"too large a text": {ValuesSource{Name: "x", TargetPath: "a"}, secret + strings.Repeat("x", maxDocumentBytes),
			ReasonLimitExceeded,
			"spec.valuesFrom[0] (Secret n/x): is larger than 1048576 bytes"},
		"a name with a slash": {ValuesSource{Name: "other/{{ .Cluster.metadata.name }}"}, "", ReasonInvalidName,
			"spec.valuesFrom[0].name: yields a name that is not lower case letters, digits"},
		"no name": {ValuesSource{Name: "{{ \"\" }}"}, "", ReasonInvalidName,
			"spec.valuesFrom[0].name: yields an empty name"},
		"too long": {ValuesSource{Name: "{{ repeat 254 \"a\" }}"}, "", ReasonInvalidName,
			"spec.valuesFrom[0].name: yields a name of 254 characters"},
		"a missing key": {ValuesSource{Name: "{{ .Cluster.metadata.labels.none }}"}, "", ReasonMissingKey,
			"spec.valuesFrom[0].name line 1: no key \"none\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.ValuesFrom = []ValuesSource{tc.source}
			program, err := Compile(spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = program.ClusterSources(t.Context(), sample()); err == nil {
				_, err = program.RenderWith(t.Context(), sample(), Contents{id: {Origin: "Secret n/x", Data: []byte(tc.data)}})
			}
			var invalid *Error
			if !errors.As(err, &invalid) || invalid.Reason != tc.reason || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s: %s", err, tc.reason, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Error("the error quotes the content")
			}
		})
	}
	spec := base()
	for range MaxSourceBytes/maxDocumentBytes + 1 {
		spec.ValuesFrom = append(spec.ValuesFrom, fixedSource(strings.Repeat("x", maxDocumentBytes), "a"))
	}
	if _, err := Compile(spec); err == nil || !strings.Contains(err.Error(), "larger than 33554432 bytes") {
		t.Errorf("no bound of all contents: %v", err)
	}
	spec = base()
	spec.ValuesFrom = []ValuesSource{{Name: "{{ .Nope"}}
	if _, err := Compile(spec); err == nil || !strings.HasPrefix(err.Error(), "spec.valuesFrom[0].name line 1: ") {
		t.Errorf("a name that does not parse: %v", err)
	}
}

// TestClusterSourcesAreChargedToBudget checks that the contents of one Cluster are charged to the budget of its
// rendering.
func TestClusterSourcesAreChargedToBudget(t *testing.T) {
	t.Parallel()
	spec, contents := base(), Contents{}
	for i := range maxWork/maxDocumentBytes + 1 {
		spec.ValuesFrom = append(spec.ValuesFrom, ValuesSource{Name: "x", TargetPath: "a"})
		contents[SourceID{OfSpec, i}] = Content{Data: []byte(strings.Repeat("x", maxDocumentBytes))}
	}
	program, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	_, err = program.RenderWith(t.Context(), sample(), contents)
	if err == nil || !strings.Contains(err.Error(), "takes too much work to render") {
		t.Errorf("got %v", err)
	}
}

func TestLiterals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text          string
		delimiters    Delimiters
		before, after string
		isTemplate    bool
	}{
		{"plain", Curly, "plain", "", false},
		{"${ plain }", Curly, "${ plain }", "", false},
		{"{{ .a }}", Curly, "", "", true},
		{"a-{{ .a }}", Curly, "a-", "", true},
		{"a- {{- .a -}} -b", Curly, "a-", "-b", true},
		{"a-{{ .a }}-{{ .b }}-c", Curly, "a-", "-c", true},
		{`a-{{ "}}" }}-c`, Curly, "a-", "-c", true},
		{"a-{{ .a", Curly, "a-", "", true},
		{"a-${ .a }-b", Dollar, "a-", "-b", true},
		{"{{ plain }}", Dollar, "{{ plain }}", "", false},
	} {
		before, after, isTemplate := Literals(tc.text, tc.delimiters)
		if before != tc.before || after != tc.after || isTemplate != tc.isTemplate {
			t.Errorf("%q: got %q, %q, %v", tc.text, before, after, isTemplate)
		}
	}
}

func TestPostRenderOfOverrides(t *testing.T) {
	t.Parallel()
	patches := func(n int, name string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"patch": "{a: %s-{{ .Cluster.metadata.labels.region }}}"}`, name)
		}
		return strings.Join(list, ",")
	}
	spec := base()
	spec.PostRender = []byte(`{"patches": [` + patches(1, "own") + `], "images": [{"name": "a"}],
		"commonMetadata": {"labels": {"a": "own", "b": "own"}}}`)
	spec.Overrides = []Override{
		{Name: "none"},
		{Name: "adds", PostRender: []byte(`{"patches": [` + patches(1, "over") + `], "images": [{"name": "b"}],
			"commonMetadata": {"labels": {"b": "{{ .Release.Name }}"}, "annotations": {"c": "over"}}}`)},
		{Name: "many", PostRender: []byte(`{"patches": [` + patches(maxPostRenderItems, "many") + `]}`)},
	}
	program, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	render := func(overrides ...int) (string, string) {
		t.Helper()
		got, err := program.Render(t.Context(), sample(), overrides...)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := encodeJSON(got.PostRender)
		return string(data), got.PostRenderDigest
	}
	plain, digest := render(0)
	if want := `{"commonMetadata":{"labels":{"a":"own","b":"own"}},"images":[{"name":"a"}],"patches":[{"patch":"{\"a\":\"own-eu-1\"}"}]}`; plain != want {
		t.Errorf("got %s, want %s", plain, want)
	}
	added, another := render(0, 1)
	if want := `{"commonMetadata":{"annotations":{"c":"over"},"labels":{"a":"own","b":"r"}},"images":[{"name":"a"},{"name":"b"}],` +
		`"patches":[{"patch":"{\"a\":\"own-eu-1\"}"},{"patch":"{\"a\":\"over-eu-1\"}"}]}`; added != want {
		t.Errorf("got %s, want %s", added, want)
	}
	if again, sum := render(0); again != plain || sum != digest || another == digest {
		t.Errorf("an override changed what others get: %s", again)
	}
	_, err = program.Render(t.Context(), sample(), 2)
	if err == nil ||
		err.Error() != "spec.overrides[2].postRender (override many): patches of the HelmOp and its overrides are 65 "+
			"together; "+
			"at most 64 are allowed" {
		t.Errorf("got %v", err)
	}
	spec.PostRender = nil
	if program, err = Compile(spec); err != nil {
		t.Fatal(err)
	}
	if got, err := program.Render(t.Context(), sample(), 2); err != nil ||
		len(got.PostRender["patches"].([]any)) != maxPostRenderItems {
		t.Errorf("an override alone: %v", err)
	}
	if got, sum := render(); got != "null" || sum != "" {
		t.Errorf("without any there is %s", got)
	}
}
