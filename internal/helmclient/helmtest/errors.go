// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// AsError converts an error to the type of all errors of the engine. It fails the test for other errors.
func AsError(t *testing.T, err error) *helmerr.Error {
	t.Helper()
	var helmErr *helmerr.Error
	if !errors.As(err, &helmErr) {
		t.Fatalf("error %v is not an *Error", err)
	}
	return helmErr
}

// WantError checks the kind of an error from Act or Observe, its StorageChanged, and parts of its text.
func WantError(t *testing.T, err, kind error, storageChanged bool, contains ...string) {
	t.Helper()
	helmErr := AsError(t, err)
	if !errors.Is(helmErr.Kind, kind) || kind != nil && !errors.Is(err, kind) {
		t.Errorf("kind %v, want %v (%s)", helmErr.Kind, kind, err)
	}
	if helmErr.StorageChanged != storageChanged {
		t.Errorf("StorageChanged %t, want %t (%s)", helmErr.StorageChanged, storageChanged, err)
	}
	for _, part := range contains {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not contain %q", err, part)
		}
	}
}
