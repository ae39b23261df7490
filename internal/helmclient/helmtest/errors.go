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

package helmtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// AsError returns an error as the type that all errors of the engine have.
func AsError(t *testing.T, err error) *helmerr.Error {
	t.Helper()
	var helmErr *helmerr.Error
	if !errors.As(err, &helmErr) {
		t.Fatalf("error %v is no *Error", err)
	}
	return helmErr
}

// WantError checks the kind of an error from Act or Observe, and what its text contains.
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
