// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package celexpr

import (
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
