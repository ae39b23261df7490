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

package helmclient

import (
	"context"
	"testing"

	"golang.org/x/sync/semaphore"
)

// TestPanicGivesBackMemory holds that an action which panics gives back the memory for payloads: the controller survives it.
func TestPanicGivesBackMemory(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	open, memory := c.open, semaphore.NewWeighted(1)
	c.open = func(ctx context.Context, target Target, desired Desired, logs *logBuffer) (*session, error) {
		s, err := open(ctx, target, desired, logs)
		s.records = &recordStore{split: newSplitRecords(memory)}
		s.records.split.held = 1
		s.config = nil
		return s, err
	}
	if !memory.TryAcquire(1) {
		t.Fatal("somebody has some")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = c.Act(t.Context(), Target{}, Decision{Action: ActionUninstall}, desiredFor("apps", "demo", "a1", "v1"), Options{}, nil, nil)
	}()
	if !memory.TryAcquire(1) {
		t.Error("the memory is lost")
	}
}

// TestHoldCountsTheLargestPayload holds that an action counts with the largest of its payloads, waits only while it holds nothing, and gives
// all back.
func TestHoldCountsTheLargestPayload(t *testing.T) {
	t.Parallel()
	const most = maxPayloadMemory / payloadCopies
	for name, tc := range map[string]struct {
		taken int64
		sizes []int
		want  int64
	}{
		"small ones do not count":         {0, []int{smallPayload, 10}, 0},
		"the first":                       {0, []int{1 << 20}, payloadCopies << 20},
		"a larger one":                    {0, []int{1 << 20, 10, 3 << 20, 2 << 20}, 3 * payloadCopies << 20},
		"a larger one, for which no room": {maxPayloadMemory - payloadCopies<<20, []int{1 << 20, 3 << 20}, payloadCopies << 20},
		"larger than all":                 {0, []int{2 * most}, maxPayloadMemory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := semaphore.NewWeighted(maxPayloadMemory)
			if !memory.TryAcquire(tc.taken) {
				t.Fatal("there is not as much")
			}
			s := &recordStore{ctx: t.Context(), split: newSplitRecords(memory)}
			for _, size := range tc.sizes {
				if err := s.hold(size); err != nil {
					t.Fatal(err)
				}
			}
			if s.split.held != tc.want {
				t.Errorf("%d bytes are held, want %d", s.split.held, tc.want)
			}
			s.release()
			if !memory.TryAcquire(maxPayloadMemory - tc.taken) {
				t.Error("not all was given back")
			}
		})
	}
}
