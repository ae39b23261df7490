// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package celexpr

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	release := map[string]any{"status": map[string]any{
		"secret": "s3cr3t", "release": map[string]any{"version": "1.2.3", "revision": int64(4)},
	}}
	tests := map[string]struct {
		source string
		want   bool
		err    string
	}{
		"true":          {`release.status.release.version.startsWith('1.')`, true, ""},
		"false":         {`release.status.release.revision > 4`, false, ""},
		"missing field": {`release.status.none.version == 'x'`, false, `field "none" is missing`},
		"missing key":   {`{'a': true}[release.status.secret]`, false, "a field is missing"},
		"no boolean":    {`release.status.secret`, false, "it is neither true nor false"},
		"no conversion": {`int(release.status.secret) > 0`, false, "it cannot be evaluated"},
		"too expensive": {
			`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d,` +
				` [1,2,3,4,5,6,7,8,9,10].all(e, release.status.release.revision < 5 && a + b + c + d + e > 0)))))`, false,
			"it is too expensive",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expression, err := Compile("release", tc.source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := expression.Holds(release)
			if got != tc.want || (err != nil) != (tc.err != "") || err != nil && err.Error() != tc.err {
				t.Errorf("Holds = %v, %v; want %v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestExpensiveExpressionsAreRefused first evaluates without a limit of time, so that only the cost can end the
// evaluation. Without the costs of this package, most of the evaluations take minutes or hours.
func TestExpensiveExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	self := map[string]any{
		"list": slices.Repeat([]any{int64(0)}, 30_000), "text": strings.Repeat("a", 1000),
		"pattern": "(?i)" + strings.Repeat(`[B-\x{1e943}]`, 10_000),
	}
	tests := map[string]string{
		"equality of nested lists":   nested("z == z"),
		"inequality of nested lists": nested("z != z"),
		"nested list in a list":      nested("z in [z]"),
		"nested maps":                strings.NewReplacer("[[", "[{1: [", "]].", "]}].").Replace(nested("z == z")),
		"doubled list":               doubled(`[1, 2]`),
		"doubled string":             doubled(`'ab'`),
		"repetitions":                `self.text.matches('` + strings.Repeat("(a?){1000}", 400) + `')`,
		"a long pattern":             `'a'.matches(self.pattern)`,
		"many patterns":              `self.list.all(x, 'a'.matches('(?i)[B-\\x{1e943}]'))`,
		"many classes":               `self.list.all(x, 'a'.matches('` + strings.Repeat(`\\pL?`, 400) + `'))`,
		"a long loop":                `self.list.all(x, x == 0)`,
		"a long loop of a map":       `self.list.map(x, x + 1) == []`,
		"conditions without cost":    `self.list.all(x, ` + strings.Repeat("(true ? true : x) && ", 190) + `true)`,
		"constants without cost":     `self.list.exists(x, ` + strings.Repeat("true && ", 500) + `false)`,
		"list of constants":          `self.list.all(x, [` + strings.Repeat("0,", 1900) + `0] != [])`,
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expression, err := Compile("self", source)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = expression.program.Eval(map[string]any{"self": self})
			if err == nil || !strings.Contains(err.Error(), "cost limit") {
				t.Errorf("error %v, want the limit of the cost", err)
			}
			if truth, err := expression.Holds(self); truth || err == nil || err.Error() != "it is too expensive" {
				t.Errorf("Holds = %v, %v", truth, err)
			}
		})
	}
}

// nested returns an expression about z, a list with 25 levels of lists. Each list has the same list four times.
func nested(expression string) string {
	for name := 'z'; name > 'a'; name-- {
		expression = fmt.Sprintf("[[%c,%[1]c,%[1]c,%[1]c]].all(%c, %s)", name-1, name, expression)
	}
	return "[0].all(a, " + expression + ")"
}

// doubled returns an expression that doubles a list or a string 25 times.
func doubled(value string) string {
	expression := "z == z"
	for name := 'z'; name > 'a'; name-- {
		expression = fmt.Sprintf("[%c+%[1]c].all(%c, %s)", name-1, name, expression)
	}
	return "[" + value + "].all(a, " + expression + ")"
}

func TestUsualExpressionsAreNotTooExpensive(t *testing.T) {
	t.Parallel()
	entries := map[string]any{}
	for i := range 500 {
		entries[fmt.Sprint("key", i)] = map[string]any{"name": strings.Repeat("n", 100), "value": strings.Repeat("v", 100)}
	}
	conditions := slices.Repeat([]any{map[string]any{
		"type": "Ready", "status": "True", "message": "the deployment web-1.example is available",
	}}, 50)
	self := map[string]any{
		"spec": entries, "status": map[string]any{"conditions": conditions, "applied": entries},
		"list": slices.Repeat([]any{int64(0)}, 5000), "large": strings.Repeat("a", 1_500_000),
	}
	for _, source := range []string{
		`self.spec == self.status.applied`,
		`self.spec != {} && self != {} && self.large != 'a' && self.large.startsWith('aa') && self.large != null`,
		`self.list.all(x, x == 0)`,
		`self.list.map(x, x + 1).size() == 5000`,
		`self.status.conditions.all(c, c.type in ['Ready', 'Available'] && c.status == 'True')`,
		`self.status.conditions.all(c, c.message.matches('^[a-z ]+ [a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z]+)* is.*$'))`,
		`self.status.conditions.all(c, c.message.matches('(?i)Deployment .* is (available|[a-z0-9-]+ready)'))`,
		`self.status.conditions.all(c, !c.message.matches('(?i)échec|prêt|エラーが発生しました。もう一度お試しください'))`,
		`self.status.conditions.filter(c, c.type == 'Ready').map(c, c.message + '.').exists(m, m.endsWith('.'))`,
	} {
		expression, err := Compile("self", source)
		if err != nil {
			t.Fatal(err)
		}
		if truth, err := expression.Holds(self); !truth || err != nil {
			t.Errorf("%s: Holds = %v, %v", source, truth, err)
		}
	}
}

func TestCompileRejectsInvalidExpressions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ variable, source, want string }{
		"syntax":           {"release", "release.", "line 1, column "},
		"another variable": {"release", "self.status", "undeclared reference"},
		"type":             {"release", "'text'", "must be true or false, not of type string"},
		"nesting":          {"release", strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), "recursion"},
		"length":           {"release", "true" + strings.Repeat(" ", 5000), "size"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // The second call uses the cache.
				if _, err := Compile(tc.variable, tc.source); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v; want %q in it", err, tc.want)
				}
			}
		})
	}
}

func TestCompileIsCached(t *testing.T) {
	t.Parallel()
	first, err := Compile("release", "release.remembered")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			again, err := Compile("release", "release.remembered")
			if err != nil || again != first {
				t.Errorf("Compile made another expression, error %v", err)
			}
			if truth, err := again.Holds(map[string]any{"remembered": true}); !truth || err != nil {
				t.Errorf("Holds = %v, %v", truth, err)
			}
		})
	}
	wg.Wait()
	other, err := Compile("self", "self.remembered")
	if err != nil || other == first {
		t.Errorf("another variable has the same expression, error %v", err)
	}
}
