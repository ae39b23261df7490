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
		"answers":               {true, now, true},
		"missed a probe":        {true, now.Add(-5 * time.Second), true},
		"missed all for long":   {true, now.Add(-unreadyAfter), false},
		"has never been":        {true, time.Time{}, false},
		"was, and ended":        {false, now.Add(-time.Second), false},
		"has never been, ended": {false, time.Time{}, false},
	} {
		if got := isReady(test.running, test.readyAt, now); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
