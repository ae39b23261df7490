// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"testing"
	"time"
)

func TestIsReady(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		running bool
		readyAt time.Time
		want    bool
	}{
		"answers":                            {true, now, true},
		"missed a probe":                     {true, now.Add(-5 * time.Second), true},
		"missed all probes for unreadyAfter": {true, now.Add(-unreadyAfter), false},
		"was never ready":                    {true, time.Time{}, false},
		"was ready and ended":                {false, now.Add(-time.Second), false},
		"was never ready and ended":          {false, time.Time{}, false},
	} {
		if got := isReady(test.running, test.readyAt, now); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
