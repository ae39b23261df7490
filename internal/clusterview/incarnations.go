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

package clusterview

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Incarnations remember which Cluster is meant by a name. The zero value is empty; it is safe for concurrent use.
type Incarnations struct {
	mu        sync.Mutex
	byCluster map[types.NamespacedName]types.UID
}

// IsAnother takes note of the UID of a Cluster, and tells whether the name meant another one before.
func (i *Incarnations) IsAnother(key types.NamespacedName, uid types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.byCluster == nil {
		i.byCluster = map[types.NamespacedName]types.UID{}
	}
	known, ok := i.byCluster[key]
	i.byCluster[key] = uid
	return ok && known != uid
}

// Forget forgets a Cluster.
func (i *Incarnations) Forget(key types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.byCluster, key)
}
