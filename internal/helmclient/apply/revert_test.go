// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"errors"
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

// TestCannotRevert checks that only the content of a failed revision prevents its revert for good. Helm returns errors
// of the API server as text.
func TestCannotRevert(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"cannot compare an object with the former Helm revision: nil pointer":                                     true,
		"failed to create patch: map: map[label:A] does not contain declared merge key: name":                     true,
		`cannot patch "map" with kind ConfigMap: ConfigMap "map" is invalid: data: Forbidden: field is immutable`: true,
		`admission webhook "policy.example.com" denied the request: the field must stay`:                          true,
		`cannot patch "map" with kind ConfigMap: configmaps "map" is forbidden: ValidatingAdmissionPolicy 'a' with ` +
			`binding 'b' denied request: the field must stay`: true,
		`Internal error occurred: failed calling webhook "policy.example.com": connect: connection refused`:  false,
		`admission webhook "policy.example.com" does not support dry run`:                                    false,
		"failed to create patch: unable to get data for current object apps/map: etcdserver: leader changed": false,
		"the server is currently unable to handle the request":                                               false,
	} {
		if got := cannotRevert(errors.New(text)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if cannotRevert(nil) {
		t.Error("no error")
	}
}
