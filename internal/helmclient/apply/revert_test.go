// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"testing"
)

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
		if got := CannotRevert(errors.New(text)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if CannotRevert(nil) {
		t.Error("no error")
	}
}
