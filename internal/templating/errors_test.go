// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	texttemplate "text/template"

	"github.com/Masterminds/sprig/v3"
)

func TestTemplateErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		template string
		reason   Reason
		want     string
	}{
		"missing key": {"a: 1\nb: {{ .Cluster.spec.nope }}", ReasonMissingKey,
			`line 2: no key "nope" in .Cluster.spec.nope`},
		"missing label":          {"{{ .Cluster.metadata.labels.nope }}", ReasonMissingKey, `line 1: no key "nope"`},
		"missing in a condition": {"{{ if .Cluster.spec.nope }}{{ end }}", ReasonMissingKey, `no key "nope"`},
		"missing with a default": {"{{ .Cluster.spec.nope | default 1 }}", ReasonMissingKey, `no key "nope"`},
		"index without a default": {"a: {{ index .Cluster.metadata.labels \"nope\" }}", ReasonMissingKey,
			"line 1: yields no value"},
		"quote of nothing": {"a: {{ index .Cluster.metadata.labels \"nope\" | quote }}", ReasonMissingKey,
			"quote: has no value"},
		"upper of nothing": {"a: {{ index .Cluster.metadata.labels \"nope\" | upper }}", ReasonMissingKey,
			"upper: argument 1 has no value"},
		"no ClusterClass": {"\n\n{{ .ClusterClass.spec.x }}", ReasonMissingKey,
			"line 3: the Cluster has no ClusterClass, which .ClusterClass.spec.x reads"},
		"no object, by $": {"{{ range list 1 }}{{ $.ClusterClass.spec.x }}{{ end }}", ReasonMissingKey,
			"the Cluster has no ClusterClass"},
		"printed absent object": {"a: {{ .ClusterClass }}", ReasonMissingKey, "yields no value"},
		"field of a string": {"{{ .Cluster.metadata.labels.secret.x }}", ReasonRenderFailed,
			`no key "x" in .Cluster.metadata.labels.secret.x, because its parent is not a map`},
		"unknown root": {"{{ .Values.x }}", ReasonMissingKey, `no key "Values"`},
		"prints a map": {"a: {{ .Cluster.metadata.labels }}", ReasonRenderFailed,
			"prints a map; write it as YAML with toYaml or toJson"},
		"prints a list": {"a: {{ .Cluster.spec.clusterNetwork.pods.cidrBlocks }}", ReasonRenderFailed,
			"prints a list"},
		"range over a string": {"{{ range .Cluster.metadata.labels.secret }}{{ end }}", ReasonRenderFailed,
			"range cannot loop over a string"},
		"required": {"{{ required \"set the label region\" (index .Cluster.metadata.labels \"nope\") }}",
			ReasonMissingKey, "required: set the label region"},
		"fail": {"{{ fail \"only on AWS\" }}", ReasonRenderFailed, "fail: only on AWS"},
		"fail with data": {"{{ fail .Cluster.metadata.labels.secret }}", ReasonRenderFailed,
			"its message is not shown"},
		"wrong type": {"{{ upper .Cluster.metadata.labels }}", ReasonRenderFailed,
			"upper: argument 1 is a map, not a string"},
		"too few arguments":   {"{{ trunc 3 }}", ReasonRenderFailed, "trunc: takes 2 arguments, is given 1"},
		"panic of a function": {"{{ div 1 0 }}", ReasonRenderFailed, "div cannot work with these arguments"},
		"panic that quotes": {"{{ urlParse (print \"%zz\" .Cluster.metadata.labels.secret) }}", ReasonRenderFailed,
			"urlParse cannot work with these arguments"},
		"error that quotes": {"{{ mustRegexMatch (print \"(\" .Cluster.metadata.labels.secret) \"\" }}",
			ReasonRenderFailed, "mustRegexMatch cannot work"},
		"semver that quotes": {"{{ semver .Cluster.metadata.labels.secret }}", ReasonRenderFailed, "semver cannot work"},
		"method that makes long texts": {"{{ (semver \"1.0.0\").SetPrerelease .Cluster.metadata.labels.secret }}",
			ReasonInvalidTemplate, "calls the method SetPrerelease"},
		"method of a variable": {"{{ $v := semver \"1.0.0\" }}{{ $v.SetMetadata \"a\" }}", ReasonInvalidTemplate,
			"calls the method SetMetadata"},
		"fromJson": {"{{ fromJson .Cluster.metadata.labels.secret }}", ReasonRenderFailed,
			"fromJson: the argument is not valid JSON"},
		"fromYaml": {"{{ fromYaml (print \"a: [\" .Cluster.metadata.labels.secret) }}", ReasonInvalidValues,
			"fromYaml: is not valid YAML"},
		"printf": {"a: {{ printf \"%d\" .Cluster.metadata.labels.secret }}", ReasonRenderFailed,
			"printf: has a verb that does not suit"},
		"index of a list": {"{{ index .Cluster.spec.clusterNetwork.pods.cidrBlocks 9 }}", ReasonRenderFailed,
			"index out of range: 9"},
		"comparison": {"{{ eq .ControlPlane.spec.replicas .Cluster.metadata.labels.secret }}",
			ReasonRenderFailed, "incompatible types for comparison"},
		"not UTF-8": {"a: {{ b64dec \"/w==\" | toJson }}", ReasonInvalidValues, "toJson: is not UTF-8 text"},
		"not YAML": {"a: [\n{{ .Cluster.metadata.labels.secret }}", ReasonInvalidValues,
			"line 2 of the YAML it yields: is not valid YAML: did not find expected ',' or ']'"},
		"not a map": {"- {{ .Cluster.metadata.labels.secret }}", ReasonInvalidValues, "is not a map of values"},
		"a key twice": {"a: 1\n{{ .Cluster.metadata.labels.secret }}: 1\n{{ .Cluster.metadata.labels.secret }}: 2",
			ReasonInvalidValues, "line 3 of the YAML it yields: gives a key twice"},
		"two documents":    {"a: 1\n---\nb: 1", ReasonInvalidValues, "more than one YAML document"},
		"not a number":     {"a: .nan", ReasonInvalidValues, "not finite"},
		"bad tag":          {"a: !!int x", ReasonInvalidValues, "has a value that its tag does not allow"},
		"own tag":          {"a: !mine x", ReasonInvalidValues, "has a tag that values cannot have"},
		"list as a key":    {"? [a]\n: 1", ReasonInvalidValues, "has a key that is not a string"},
		"merge of a list":  {"<<: [1]", ReasonInvalidValues, "merges what is not a map"},
		"does not parse":   {"a: 1\n{{ if }}", ReasonInvalidTemplate, "line 2: missing value for if"},
		"unknown function": {"{{ frobnicate 1 }}", ReasonInvalidTemplate, `line 1: function "frobnicate" not defined`},
		"recursion": {"{{ define \"x\" }}{{ template \"y\" }}{{ end }}{{ define \"y\" }}{{ template \"x\" " +
			"}}{{ end }}", ReasonInvalidTemplate, "calls itself"},
		"undefined template": {"{{ template \"x\" }}", ReasonRenderFailed, "cannot be evaluated"},
		"placeholder in the text": {"a: 1\nb: \ue0000\ue001", ReasonInvalidTemplate,
			"line 2: has a character of the Unicode private use area"},
		"too large": {strings.Repeat("#", maxTemplateBytes+1), ReasonLimitExceeded,
			"is larger than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.ValuesTemplate = tc.template
			_, err := render(t, spec, sample())
			checkError(t, err, tc.want)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %T, want *Error", err)
			}
			if e.Reason != tc.reason || e.Field != "spec.valuesTemplate" {
				t.Errorf("got %s for %s, want %s for spec.valuesTemplate (%v)", e.Reason, e.Field, tc.reason, err)
			}
		})
	}
}

func TestUnavailableFunctions(t *testing.T) {
	t.Parallel()
	for name := range unavailable {
		spec := base()
		spec.ValuesTemplate = "a: {{ " + name + " }}"
		_, err := Compile(spec)
		checkError(t, err, `the function "`+name+`" is not available`)
	}
}

// TestEverySprigFunctionIsClassified checks that each function of sprig is either allowed or unavailable. So if an
// update of sprig adds a function, a developer must decide whether templates may use it.
func TestEverySprigFunctionIsClassified(t *testing.T) {
	t.Parallel()
	for name := range sprig.GenericFuncMap() {
		_, allowed := functions[name]
		if allowed == unavailable[name] {
			t.Errorf("%s: allowed %t, unavailable %t", name, allowed, unavailable[name])
		}
	}
	for _, names := range [][]string{sprigShallow, sprigIntegers, sprigFloats, sprigDecimals, sprigMeasured,
		sortedKeys(sprigCostly), sortedKeys(sprigGrowing), sprigReplacing} {
		for _, name := range names {
			if _, ok := functions[name]; !ok {
				t.Errorf("%s is allowed and does not exist", name)
			}
		}
	}
}

func TestValuesErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values string
		want   string
	}{
		"key": {`{"installation": {"cni": "{{ .Cluster.spec.nope }}"}}`,
			`spec.values.installation.cni line 1: no key "nope"`},
		"list": {`{"pools": [{"cidr": "x"}, {"cidr": "{{ .nope }}"}]}`,
			"spec.values.pools[1].cidr line 1: no key"},
		"key with dots":     {`{"a": {"b.c/d": "{{ .nope }}"}}`, `spec.values.a["b.c/d"] line 1`},
		"key with dots top": {`{"b.c/d": "{{ .nope }}"}`, `spec.values["b.c/d"] line 1`},
		"line":              {`{"a": "x\ny{{ .nope }}"}`, "spec.values.a line 2"},
		"first of two":      {`{"b": "{{ .b }}", "a": "{{ .a }}"}`, "spec.values.a line 1"},
		"does not parse":    {`{"a": "{{ }"}`, "spec.values.a line 1: "},
		"no value":          {`{"a": "{{ index .Cluster.metadata.labels \"x\" }}"}`, "spec.values.a line 1: yields no value"},
		"map within text":   {`{"a": "x{{ .Cluster.metadata.labels }}"}`, "prints a map within a string"},
		"templated key":     {`{"{{ .x }}": 1}`, "a key is not a template"},
		"Go type":           {`{"a": "{{ semver \"1.0.0\" }}"}`, "which values cannot hold"},
		"not JSON":          {`{"a": ` + secret, "spec.values: is not valid JSON"},
		"two values":        {`{} {}`, "more than one JSON value"},
		"not a map":         {`["` + secret + `"]`, "is not a map of values"},
		"deep":              {strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "nested deeper than 100"},
		"output":            {`{"a": "{{ $s := repeat 600000 \"x\" }}{{ $s }}{{ $s }}"}`, "yields more than 1048576 bytes"},
		"large number":      {`{"a": 1e999}`, "number out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.Values = []byte(tc.values)
			_, err := render(t, spec, sample())
			checkError(t, err, tc.want)
		})
	}
}

func TestValuesFromErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data string
		want string
	}{
		"not YAML":  {"a: 1\nb: {" + secret, "spec.valuesFrom[0] (Secret s key k) line "},
		"not a map": {secret, "spec.valuesFrom[0] (Secret s key k): is not a map of values"},
		"twice": {"a: 1\n" + secret + ": 2\n" + secret + ": 3",
			"spec.valuesFrom[0] (Secret s key k) line 3: gives a key twice"},
		"unknown alias": {"a: *" + secret, "is not valid YAML"},
		"tag":           {"a: !!int " + secret, "has a value that its tag does not allow"},
		"too large":     {"a: " + strings.Repeat("x", maxDocumentBytes), "is larger than 1048576 bytes"},
		"control":       {"a: \x01" + secret, "is not valid YAML"},
		"aliases without end": {"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c " +
			"[*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]", "has more than 100000 values"},
		"alias of itself": {"a: &a [*a]", "spec.valuesFrom[0] (Secret s key k)"},
		"UTF-16":          {"\xff\xfea\x00:\x00 \x00b\x00", "is not UTF-8 text"},
		"tag directive":   {"%TAG ! tag:" + secret + ",\n---\na: [!b c]", "has a %TAG directive; use full tags"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.ValuesFrom = []ValuesSource{{Origin: "Secret s key k", Data: []byte(tc.data)}}
			_, err := Compile(spec)
			checkError(t, err, tc.want)
		})
	}
}

// TestLargeTreesAreParsedOneByOne checks that only one large tree is in use at a time, and that small texts do not wait
// for it.
func TestLargeTreesAreParsedOneByOne(t *testing.T) {
	t.Parallel()
	const parts = maxNodes + 1
	for name, tc := range map[string]struct {
		text string
		want string
	}{
		"keys":     {"{" + strings.Repeat("a,", parts) + "}", "gives a key twice"},
		"values":   {"[" + strings.Repeat("a,", parts) + "]", "has more than 100000 values"},
		"lines":    {strings.Repeat("- a\n", parts), "has more than 100000 values"},
		"a string": {"a: '" + strings.Repeat(",", parts) + "'", ""},
	} {
		isUsed, isAlone := false, true
		reader := yamlReader{expand: func(text string, _ int) (string, bool) {
			isUsed = true
			if largeTree.TryLock() {
				isAlone = false
				largeTree.Unlock()
			}
			return text, false
		}}
		_, err := reader.read(tc.text)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if !isUsed || !isAlone {
			t.Errorf("%s: the tree is used: %t; no other large tree can be in use: %t", name, isUsed, isAlone)
		}
	}
	largeTree.Lock()
	defer largeTree.Unlock()
	if _, err := new(yamlReader).read("a: " + strings.Repeat("x", maxDocumentBytes-10)); err != nil {
		t.Error(err)
	}
}

// TestExpensiveTemplatesAreStopped has templates that would run for hours or fill the memory without limits.
func TestExpensiveTemplatesAreStopped(t *testing.T) {
	t.Parallel()
	double := `{{ $s := "0123456789abcdef" }}{{ range until 60 }}{{ $s = `
	for name, text := range map[string]string{
		"loop without output": "{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}{{ " +
			"end }}",
		"range over a number":  "{{ range 1000000000000 }}{{ end }}",
		"until":                "{{ range until 1000000000 }}{{ end }}",
		"until, negative":      "{{ until -1000000000 | len }}",
		"untilStep":            "{{ untilStep 0 1000000000 1 | len }}",
		"seq":                  "{{ seq 1000000000 }}",
		"seq, three":           "{{ seq 1 2 1000000000 }}",
		"repeat":               `{{ repeat 1000000000 "x" }}`,
		"indent":               `{{ indent 1000000000 "x" }}`,
		"nindent":              `{{ nindent 1000000000 "x" }}`,
		"printf width":         `{{ printf "%1000000000d" 1 }}`,
		"printf widths":        "{{ printf `" + strings.Repeat("%999999d", 1000) + "` }}",
		"printf star":          `{{ printf "%*d" 1000000 1 }}`,
		"doubling by printf":   double + "printf \"%s%s\" $s $s }}{{ end }}",
		"doubling by print":    double + "print $s $s }}{{ end }}",
		"doubling by cat":      double + "cat $s $s }}{{ end }}",
		"doubling by replace":  double + "replace \"0\" $s $s }}{{ end }}",
		"doubling by join":     double + "join $s (list 1 2 3) }}{{ end }}",
		"doubling by wrapWith": double + "wrapWith 1 $s $s }}{{ end }}",
		"doubling by regex":    double + "regexReplaceAll \".\" $s $s }}{{ end }}",
		"doubling of lists":    "{{ $l := list 1 }}{{ range until 60 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}",
		"doubling of maps": "{{ $l := dict }}{{ range until 60 }}{{ $l = dict \"a\" $l \"b\" $l }}{{ end }}{{ " +
			"toYaml $l }}",
		"doubling by set":        "{{ $l := dict }}{{ range until 60 }}{{ $_ := set $l (toString .) $l }}{{ end }}",
		"doubling by concat":     "{{ $l := list 1 }}{{ range until 60 }}{{ $l = concat $l $l }}{{ end }}",
		"nesting":                "{{ $l := list 1 }}{{ range until 30000 }}{{ $l = list $l }}{{ end }}{{ print $l }}",
		"output":                 "{{ range until 30000 }}" + strings.Repeat("0123456789abcdef", 4) + "{{ end }}",
		"calls of templates":     `{{ define "a" }}{{ range until 99 }}{{ end }}{{ end }}{{ define "b" }}{{ range until 99 }}{{ template "a" }}{{ end }}{{ end }}{{ range until 9999 }}{{ template "b" }}{{ end }}`,
		"comparing all elements": "{{ uniq (until 30000) | len }}",
		"built in, in a loop":    "{{ range until 30000 }}" + strings.Repeat("{{ $_ := eq 1 2 }}", 9000) + "{{ end }}",
		"pattern that unrolls":   "{{ range until 30000 }}{{ $_ := regexMatch `((a{10}){10}){10}` `b` }}{{ end }}",
		"many digits": "{{ range 1000000 }}{{ $_ := divf 1e308" + strings.Repeat(" 1.7e-300", 250) +
			" }}{{ end }}",
		"large classes": "{{ range 1000000 }}{{ $_ := regexMatch `\\pL\\pL\\pL` `` }}{{ end }}",
		"many ranges":   "{{ range 1000000 }}{{ $_ := semverCompare `>=1 <2 || ~4 || ^5` `1.2.3` }}{{ end }}",
		"YAML aliases": "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c " +
			"[*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]",
		"other cases of wide classes":     "{{ $_ := regexMatch (print `(?i)` (repeat 500 `[B-\U0001E942]`)) `` }}",
		"other cases of wide ranges":      "{{ $_ := regexMatch (print `(?i)[` (repeat 500 `B-\U0001E942`) `]`) `` }}",
		"searches that read the rest":     "{{ $_ := regexFindAll `a.*b|a` (repeat 20000 `a`) -1 }}",
		"searches that read far":          "{{ $_ := regexFindAll `a.{0,100}b|a` (repeat 1000 `a`) -1 }}",
		"replacements that read the rest": "{{ $_ := regexReplaceAll `a.*b|a` (repeat 20000 `a`) `` }}",
		"sorted keys": "{{ $m := fromJson (print `{\"` (join `\":1,\"` (until 500)) `\":1}`) }}{{ range 200 }}" +
			"{{ range $m }}{{ break }}{{ end }}{{ end }}",
		"comparisons of long texts": "{{ $a := repeat 100000 `x` }}{{ range 100 }}{{ $_ := eq $a $a }}{{ end }}",
		"aliases of empty placeholders": "a: &x " + strings.Repeat(`{{ "" }}`, 300) + "\nb: [" +
			strings.Repeat("*x,", 9000) + "]",
		"a large set of characters": `{{ $_ := trimAll (print (repeat 20000 "\u00a9") "\u00e9") (repeat 20000 "\u00e9") }}`,
		"placeholders":              "{{ $s := repeat 100000 \"x\" }}a:\n{{ range until 100 }}- {{ $s }}\n{{ end }}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := base()
			spec.ValuesTemplate = text
			p, err := Compile(spec)
			if err != nil {
				t.Fatal(err)
			}
			p.budget = maxWork / 32 // a template that ends with the small budget also ends with the large one, only later
			_, err = p.Render(t.Context(), sample())
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonLimitExceeded {
				t.Errorf("got %v, want an Error for %s", err, ReasonLimitExceeded)
			}
		})
	}
}

// TestExpensiveTemplatesNeedLittleMemory has templates that would take hundreds of MiB before a check of their result
// stops them. It does not run in parallel with other tests, because it reads the allocations of the whole process.
func TestExpensiveTemplatesNeedLittleMemory(t *testing.T) {
	const most = 64 << 20
	leaves := func(n int, leaf string) []byte {
		list, err := json.Marshal(map[string]any{"a": slices.Repeat([]string{leaf}, n)})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	format := func(verb, arg string) string {
		return `a: {{ printf "` + strings.Repeat(verb, 300) + `" ` + arg + ` | len }}`
	}
	const large = `{{ $s := repeat 100000 "x" }}`
	patch, err := json.Marshal(map[string]any{"patches": []any{map[string]any{
		"patch": large + `a: "{{ range until 3000 }}{{ $s }}{{ end }}"`}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]Spec{
		"placeholders in a value":   {ValuesTemplate: large + `a: "{{ range until 3000 }}{{ $s }}{{ end }}"`},
		"placeholders in a key":     {ValuesTemplate: large + "? \"{{ range until 3000 }}{{ $s }}{{ end }}\"\n: 1"},
		"placeholders in a patch":   {PostRender: patch},
		"printf of one argument":    {ValuesTemplate: format("%[1]s", `(repeat 1000000 "x")`)},
		"printf in hexadecimal":     {ValuesTemplate: format("%[1]x", `(repeat 1000000 "x")`)},
		"printf with a width":       {ValuesTemplate: format("%[1]999999d", "1")},
		"printf with a precision":   {ValuesTemplate: format("%[1].999999f", "1.0")},
		"printf of a list":          {ValuesTemplate: `a: {{ printf "%100000d" (until 3000) | len }}`},
		"printf of a map":           {ValuesTemplate: `a: {{ printf "%100000v" .ClusterAnnotations | len }}`},
		"parts of text":             {ValuesTemplate: `a: {{ split "" (repeat 1000000 "x") | len }}`},
		"a limited number of parts": {ValuesTemplate: `a: {{ splitn "" 1000000 (repeat 1000000 "x") | len }}`},
		"a pattern of groups":       {ValuesTemplate: `a: {{ regexReplaceAll (repeat 5000 "(a)|") "a" "$1" | quote }}`},
		"classes of letters":        {ValuesTemplate: `a: {{ regexMatch (repeat 20000 "\\pL") "" | quote }}`},
		"a repeated pattern of groups": {ValuesTemplate: `a: {{ regexMatch (print "(?:" (repeat 100 "(a)?") ` +
			`(repeat 100 "a?") "){500,}") "a" | quote }}`},
		"comparison of a map that grows": {ValuesTemplate: `{{ $s := dict }}{{ $x := list $s }}{{ range until 13 }}` +
			`{{ $x = list $x $x }}{{ end }}{{ $_ := set $s "k" (repeat 50000 "x") }}a: {{ eq $x $x }}`},
		"a shared map that grows": {ValuesTemplate: `{{ $s := dict }}{{ $x := list $s }}{{ range until 13 }}` +
			`{{ $x = list $x $x }}{{ end }}{{ $_ := set $s "k" (until 3000) }}a: {{ print $x | len }}`},
		"large objects":          {Values: leaves(1000, "{{ . }}")},
		"text with long escapes": {Values: leaves(5, `{{ repeat 1000000 "\u0001" }}`)},
		"large texts":            {Values: leaves(3000, "x{{ .ClusterAnnotations.large }}")},
	} {
		spec.ReleaseName, spec.ReleaseNamespace = "r", "ns"
		p, err := Compile(spec)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects, annotations := sample(), map[string]any{"large": strings.Repeat("x", 200_000)}
		for i := range 2000 {
			annotations[strconv.Itoa(i)] = "x"
		}
		objects.Cluster["metadata"].(map[string]any)["annotations"] = annotations
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = p.Render(t.Context(), objects)
		runtime.ReadMemStats(&after)
		var e *Error
		if !errors.As(err, &e) || e.Reason != ReasonLimitExceeded {
			t.Errorf("%s: got %v, want an Error for %s", name, err, ReasonLimitExceeded)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: %d MiB are allocated, more than %d", name, used>>20, most>>20)
		}
	}
}

// TestCopiesAreCharged checks that templates that change objects pay for their copies of the objects.
func TestCopiesAreCharged(t *testing.T) {
	t.Parallel()
	objects := sample()
	annotations := map[string]any{}
	for i := range 20_000 {
		annotations[strconv.Itoa(i)] = "x"
	}
	objects.Cluster["metadata"].(map[string]any)["annotations"] = annotations
	for leaves, want := range map[int]string{5: "", 500: "takes too much work"} {
		values, err := json.Marshal(map[string]any{"a": slices.Repeat([]string{`{{ $_ := unset dict "a" }}x`}, leaves)})
		if err != nil {
			t.Fatal(err)
		}
		spec := base()
		spec.Values = values
		_, err = render(t, spec, objects)
		checkError(t, err, want)
	}
}

// TestTextThatIsNoNumber checks that a text that is not a number, or not valid in an encoding, is an error. Sprig would
// yield 0, or the text of the error.
func TestTextThatIsNoNumber(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`{{ int "three" }}`:                       "int: argument 1 is not a whole number",
		`{{ int64 "" }}`:                          "is not a whole number",
		`{{ int "1.5" }}`:                         "is not a whole number",
		`{{ int " 1" }}`:                          "is not a whole number",
		`{{ add 1 "x" }}`:                         "add: argument 2 is not a whole number",
		`{{ max 1 "x" }}`:                         "is not a whole number",
		`{{ duration "x" }}`:                      "is not a whole number",
		`{{ float64 "x" }}`:                       "float64: argument 1 is not a number",
		`{{ addf 1 "x" }}`:                        "is not a number",
		`{{ ceil "x" }}`:                          "is not a number",
		`{{ atoi "x" }}`:                          "atoi cannot work",
		`{{ toDecimal "9" }}`:                     "toDecimal cannot work",
		`{{ int (index .ClusterLabels "nope") }}`: "has no value",
		`{{ int (get .ClusterLabels "nope") }}`:   "is not a whole number",
		`{{ b64dec "%" }}`:                        "b64dec: the argument is not valid base64",
		`{{ b32dec "1" }}`:                        "b32dec: the argument is not valid base32",
		"{{ regexMatch `(` `x` }}":                "regexMatch cannot work",
		`{{ printf "%!" 1 }}`:                     "printf: has a verb that does not suit",
		`{{ printf "%[1d" 1 }}`:                   "has a verb that does not suit",
	} {
		_, err := renderLeaf(t, template)
		checkError(t, err, want)
	}
	for template, want := range map[string]any{
		`{{ int "010" }}`:                          int64(10),
		`{{ int 1.5 }}`:                            int64(1),
		`{{ add "2" 3 }}`:                          int64(5),
		`{{ float64 "1.5" }}`:                      1.5,
		`{{ mulf "1.5" 2 }}`:                       int64(3),
		`{{ atoi "-3" }}`:                          int64(-3),
		`{{ toDecimal "0777" }}`:                   int64(511),
		`{{ duration "90" }}`:                      "1m30s",
		`{{ b64dec "eA==" }}`:                      "x",
		`{{ printf "%5.1f|%-3d|%%|%[1]v" 1.5 2 }}`: "  1.5|2  |%|1.5",
		`{{ (splitn "," 2 "a,b,c")._1 }}`:          "b,c",
	} {
		got, err := renderLeaf(t, template)
		if err != nil || got != want {
			t.Errorf("%s: got %#v, %v, want %#v", template, got, err, want)
		}
	}
}

// renderLeaf returns the value of one string of spec.values.
func renderLeaf(t *testing.T, template string) (any, error) {
	t.Helper()
	values, err := json.Marshal(map[string]any{"a": template})
	if err != nil {
		t.Fatal(err)
	}
	spec := base()
	spec.Values = values
	result, err := render(t, spec, sample())
	return result.Values["a"], err
}

// TestReadingNumbersIsCharged checks that the cost of reading a number grows with its text.
func TestReadingNumbersIsCharged(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"int", "float64", "atoi", "duration"} {
		spec := base()
		spec.ValuesTemplate = `{{ $s := repeat 100000 "0" }}{{ range until 1000 }}{{ $_ := ` + function + ` $s }}{{ end }}`
		_, err := render(t, spec, sample())
		checkError(t, err, "takes too much work")
	}
}

func TestCompiledProgramHasABudget(t *testing.T) {
	t.Parallel()
	spec := base()
	spec.ValuesTemplate = "{{ range 1000000000000 }}{{ end }}"
	_, err := render(t, spec, sample())
	checkError(t, err, "spec.valuesTemplate line 1: takes too much work to render")
}

func TestContextEndsRendering(t *testing.T) {
	t.Parallel()
	spec := base()
	spec.ValuesTemplate = "{{ range until 10 }}{{ upper \"x\" }}{{ end }}"
	p, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Render(ctx, sample()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestEmptyObjects checks that missing objects cause errors, and not panics.
func TestEmptyObjects(t *testing.T) {
	t.Parallel()
	for _, objects := range []Objects{{Cluster: map[string]any{}}, {Cluster: map[string]any{"metadata": nil}},
		{Cluster: map[string]any{"metadata": "x"}}} {
		for text, want := range map[string]string{
			"{{ .Cluster.metadata.name }}": "spec.values.a line 1: no key",
			"{{ .ClusterName }}":           "spec.values.a line 1: yields no value",
			"{{ .InfraCluster.spec.region }}": "the Cluster has no infrastructure object, which " +
				".InfraCluster.spec.region reads",
			"{{ .ControlPlane.spec.replicas }}":   "the Cluster has no control plane object",
			"{{ .ClusterLabels.x }}":              `no key "x"`,
			"{{ .ClusterValues.ControlPlane.x }}": "the Cluster has no control plane object",
		} {
			values, err := json.Marshal(map[string]any{"a": text})
			if err != nil {
				t.Fatal(err)
			}
			spec := base()
			spec.Values = values
			_, err = render(t, spec, objects)
			checkError(t, err, want)
		}
	}
}

// TestTemplatesWithoutCluster checks templates without a Cluster. The objects of a Cluster must be missing keys, even
// if they are not read as maps.
func TestTemplatesWithoutCluster(t *testing.T) {
	t.Parallel()
	for text, key := range map[string]string{
		"{{ .Cluster.metadata.name }}": "Cluster", "{{ .ClusterName }}": "ClusterName", "{{ .ControlPlane }}": "ControlPlane",
		"{{ if .InfraCluster }}a{{ end }}": "InfraCluster", "{{ .ClusterValues.Cluster.x }}": "ClusterValues",
	} {
		spec := base()
		spec.ValuesTemplate = "a: " + text
		_, err := render(t, spec, Objects{})
		checkError(t, err, "spec.valuesTemplate line 1: no key \""+key+"\"")
	}
	spec := base()
	spec.ValuesTemplate = "a: {{ .Release.Name }}"
	if _, err := render(t, spec, Objects{}); err != nil {
		t.Error(err)
	}
}

func TestParseErrorsDoNotNameTheTemplate(t *testing.T) {
	t.Parallel()
	_, err := Compile(Spec{ReleaseName: "a", ReleaseNamespace: "b", ValuesTemplate: "a: 1\nb: {{ .x\n"})
	if err == nil || strings.Contains(err.Error(), rootName) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want an error that names line 2 and no template", err)
	}
}

// TestYAMLErrorsNameLineAndCause checks the lines of errors of the YAML library, which counts some lines from 0.
func TestYAMLErrorsNameLineAndCause(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]struct {
		line  int
		cause string
	}{
		"a: b: c\n":                       {1, "mapping values are not allowed in this context"},
		"a: 1\nb: 2\n c: 3\nd: 4\n":       {3, "mapping values are not allowed in this context"},
		"a: 1\n\tb: 2\n":                  {2, "found a tab character that violates indentation"},
		"a: 1\nb: @x\n":                   {2, "found character that cannot start any token"},
		"a: 1\nb: 'x\nc: 2\n":             {2, "found unexpected end of stream"},
		"a: 1\nb: [1\nc: 2\nd: 3\n":       {2, "did not find expected ',' or ']'"},
		"a: {b: 1 c: 2}\n":                {1, "did not find expected ',' or '}'"},
		"a: 1\nb: }\n":                    {2, "did not find expected node content"},
		"a: 1\nb:\n  c: 1\n d: 2\ne: 3\n": {4, "did not find expected key"},
		"a: [\n":                          {1, "did not find expected node content"},
		"- a\nb: 1\n":                     {2, "did not find expected '-' indicator"},
		"a: [\nx":                         {2, "did not find expected ',' or ']'"},
		"a: 1\nb: *unknown\n":             {0, ""},
		"a: 1\nb: \x01\n":                 {0, ""},
	} {
		_, err := ParseValues([]byte(data))
		var got *fault
		if !errors.As(err, &got) {
			t.Errorf("%q: %v", data, err)
			continue
		}
		cause := "is not valid YAML"
		if want.cause != "" {
			cause += ": " + want.cause
		}
		if got.line != want.line || got.cause != cause {
			t.Errorf("%q: line %d: %s, want line %d: %s", data, got.line, got.cause, want.line, cause)
		}
	}
}

// TestTooManyTemplatesAreRefused has more templates than the manager could keep in memory for each revision.
func TestTooManyTemplatesAreRefused(t *testing.T) {
	t.Parallel()
	for leaf, want := range map[string]string{
		`{{1}}`: "is one of too many templates",
		`{{ if true }}` + strings.Repeat(`{{ 1 }}`, 10) + `{{ end }}`: "is one of too many templates",
		`1`: "",
	} {
		values, err := json.Marshal(map[string]any{"a": slices.Repeat([]string{leaf}, 10_000)})
		if err != nil {
			t.Fatal(err)
		}
		spec := base()
		spec.Values = values
		_, err = Compile(spec)
		checkError(t, err, want)
	}
}

// TestUsualExpressionsAreCheap has regular expressions that charts and clusters use often. A rendering can use each of
// them two hundred times.
func TestUsualExpressionsAreCheap(t *testing.T) {
	t.Parallel()
	for expression, text := range map[string]string{
		`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`: "123e4567-e89b-12d3-a456-426614174000",
		`(?i)^[a-zäöü]+$`:                                                       "münchen",
		`^(?:[a-zäöü][a-z0-9äöü-]*[a-z0-9])$`:                                   "münchen-1",
		`^([0-9]{1,3}\.){3}[0-9]{1,3}(/[0-9]{1,2})?$`:                           "192.168.100.100/24",
		`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z]{2,}$`:                    "a.b.example.com",
		`^v?([0-9]+)\.([0-9]+)\.([0-9]+)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`: "v1.37.2+build.7",
	} {
		spec := base()
		spec.ValuesTemplate = "{{ range until 200 }}{{ if not (regexMatch `" + expression + "` `" + text +
			"`) }}{{ fail `no match` }}{{ end }}{{ $_ := regexReplaceAll `" + expression + "` `" + text + "` `` }}{{ end }}a: b"
		_, err := render(t, spec, sample())
		checkError(t, err, "")
	}
}

// TestTargetPathsFillNoMemory has values sources whose paths fill long lists in each other.
func TestTargetPathsFillNoMemory(t *testing.T) {
	t.Parallel()
	spec := base()
	for i := range 32 {
		spec.ValuesFrom = append(spec.ValuesFrom, ValuesSource{Data: []byte("x"),
			TargetPath: fmt.Sprintf("a%d", i) + strings.Repeat("[999]", 31)})
	}
	_, err := Compile(spec)
	checkError(t, err, "has, with the sources before it, more than 200000 values")
}

// TestComparisons compares the results of the comparison functions with those of text/template.
func TestComparisons(t *testing.T) {
	t.Parallel()
	values := []any{nil, true, false, "", "a", "b", 0, 1, -1, int64(1), uint8(1), uint64(1), 1.0, -2.5, []any{"a"},
		map[string]any{}}
	for name, f := range comparisons() {
		original := texttemplate.Must(texttemplate.New("").Parse("{{ " + name + " .a .b }}"))
		for _, a := range values {
			for _, b := range values {
				var want strings.Builder
				wantErr := original.Execute(&want, map[string]any{"a": a, "b": b})
				got, err := newRun(t.Context(), Objects{}, maxWork).wrap(name, f).(func(...any) (any, error))(a, b)
				if (err == nil) != (wantErr == nil) || err == nil && fmt.Sprint(got) != want.String() {
					t.Errorf("%s %v %v: got %v, %v; want %s, %v", name, a, b, got, err, want.String(), wantErr)
				}
			}
		}
	}
}
