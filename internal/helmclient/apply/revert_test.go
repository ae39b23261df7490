// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"testing"
)

// TestDropUnapplied checks which fields of a failed revision an update removes: those that the next manifest does not
// have, if they still have the value of the failed revision.
func TestDropUnapplied(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ failed, target, live, want string }{
		"applied":     {`{"a":1,"b":2}`, `{"a":0}`, `{"a":1,"b":2,"c":3}`, `{"a":1,"b":2}`},
		"not applied": {`{"a":1,"b":2}`, `{"a":0}`, `{"a":0}`, `{"a":1}`},
		"changed by another": {`{"spec":{"replicas":3}}`, `{"spec":{"x":1}}`, `{"spec":{"replicas":5,"x":1}}`,
			`{"spec":{}}`},
		"with defaults":         {`{"a":{"b":1}}`, `{}`, `{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`},
		"a map becomes a value": {`{"a":{"b":1}}`, `{"a":1}`, `{"a":{}}`, `{"a":{"b":1}}`},
		"missing in live":       {`{"a":{"b":1}}`, `{"a":{"c":1}}`, `{}`, `{"a":{}}`},
	} {
		var contents [3]map[string]any
		for i, text := range []string{test.failed, test.target, test.live} {
			if err := json.Unmarshal([]byte(text), &contents[i]); err != nil {
				t.Fatal(err)
			}
		}
		failed := contents[0]
		dropUnapplied(failed, contents[1], contents[2])
		if got, err := json.Marshal(failed); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}
