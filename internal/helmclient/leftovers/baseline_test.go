// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

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
		"changed in an item": {`{"a":[{"name":"x","b":1},{"name":"y","b":1},{"name":{},"b":1}]}`,
			`{"a":[{"name":"x"},{"name":"y"},{"name":{}}]}`, `{"a":[{"name":"y","b":2},{"name":"x","b":1},{"name":{}}]}`,
			`{"a":[{"b":1,"name":"x"},{"name":"y"},{"b":1,"name":{}}]}`},
		"with defaults":         {`{"a":{"b":1}}`, `{}`, `{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`},
		"a map becomes a value": {`{"a":{"b":1}}`, `{"a":1}`, `{"a":{}}`, `{"a":{"b":1}}`},
		"an amount": {`{"a":[{"name":"x","r":{"limits":{"cpu":1}}}]}`, `{"a":[{"name":"x","r":{}}]}`,
			`{"a":[{"name":"x","r":{"limits":{"cpu":"1"}}}]}`, `{"a":[{"name":"x","r":{"limits":{"cpu":1}}}]}`},
		"one of two amounts": {`{"a":{"limits":{"cpu":1,"memory":"1Gi"}}}`, `{"a":{"limits":{"cpu":2}}}`,
			`{"a":{"limits":{"cpu":"1","memory":"1024Mi"}}}`, `{"a":{"limits":{"cpu":1,"memory":"1Gi"}}}`},
		"another amount": {`{"a":{"limits":{"cpu":1,"memory":"1Gi"}}}`, `{"a":{"limits":{"cpu":2}}}`,
			`{"a":{"limits":{"cpu":"1","memory":"2Gi"}}}`, `{"a":{"limits":{"cpu":1}}}`},
		"a limit of size": {`{"a":{"sizeLimit":"1024Mi"}}`, `{"a":{}}`, `{"a":{"sizeLimit":"1Gi"}}`, `{"a":{"sizeLimit":"1024Mi"}}`},
		"missing in live": {`{"a":{"b":1}}`, `{"a":{"c":1}}`, `{}`, `{"a":{}}`},
	} {
		var contents [3]map[string]any
		for i, text := range []string{test.failed, test.target, test.live} {
			if err := json.Unmarshal([]byte(text), &contents[i]); err != nil {
				t.Fatal(err)
			}
		}
		failed := contents[0]
		dropUnapplied(failed, contents[1], contents[2], false)
		if got, err := json.Marshal(failed); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}
