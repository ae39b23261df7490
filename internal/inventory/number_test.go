// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNumberOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		generation int64
		version    string
		want       int64
		isVersion  bool
	}{
		"a generation":                {3, "812", 3, false},
		"a version":                   {0, "812", 812, true},
		"no version":                  {0, "", 0, true},
		"a version of letters":        {0, "a1", 0, true},
		"a negative version":          {0, "-4", 0, true},
		"a version that is too large": {0, "99999999999999999999", 0, true},
	} {
		got, isVersion := NumberOf(&metav1.ObjectMeta{Generation: tc.generation, ResourceVersion: tc.version})
		if got != tc.want || isVersion != tc.isVersion {
			t.Errorf("%s: %d, %t", name, got, isVersion)
		}
	}
}
