// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

func TestMaxPayload(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		storage Storage
		want    int
	}{
		"cluster":            {Storage{}, MaxClusterPayload},
		"store":              {Storage{Outside: true}, MaxStoredPayload},
		"store with a limit": {Storage{Outside: true, Limit: 1000}, 1000},
	} {
		if got := tc.storage.MaxPayload(); got != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, got, tc.want)
		}
	}
}
