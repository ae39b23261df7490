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
