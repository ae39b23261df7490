// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"strings"
	"sync"
	"testing"
)

// TestStrategicMergesConcurrently checks that merges run concurrently, even while the first merges read the schemas.
// The race detector finds violations.
func TestStrategicMergesConcurrently(t *testing.T) {
	t.Parallel()
	const object = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"a","image":"one"},{"name":"b","image":"one"}]}}}}`
	const change = `{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"two"}]}}}}`
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			merged, err := mergeStrategically([]byte(object), []byte(change))
			if err != nil || strings.Count(string(merged), `"name"`) != 3 || !strings.Contains(string(merged), `"image":"two"`) {
				t.Errorf("%s: %v", merged, err)
			}
		})
	}
	group.Wait()
}
