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

package rendering

import (
	"strings"
	"sync"
	"testing"
)

// TestStrategicMergesAtTheSameTime holds that merges need not wait for each other, not even while the first ones read the
// schemas; the race detector finds where they must.
func TestStrategicMergesAtTheSameTime(t *testing.T) {
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
