/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
