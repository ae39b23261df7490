// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonvalues

import "testing"

func TestCounter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		``:                       0,
		`"a,b{[\",\\"`:           0,
		`{}`:                     1,
		`[{},{},{}]`:             6,
		`{"a":"\\","b":[1,2,3]}`: 5,
		`["","",""]`:             3,
	} {
		for _, step := range []int{1, 2, len(text) + 1} {
			var values Counter
			for rest := text; rest != ""; {
				part := rest[:min(step, len(rest))]
				values.Add([]byte(part))
				rest = rest[len(part):]
			}
			if values.Count != want {
				t.Errorf("%s in steps of %d: %d values, want %d", text, step, values.Count, want)
			}
		}
	}
}
