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
	"container/list"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

// maxConnections bounds the clusters about which something is kept. One without recent actions holds some tens of
// kilobytes; the least recently used one beyond the bound is dropped, and made anew when needed.
const maxConnections = 5000

// connections keeps what is known of each cluster. It is safe for concurrent use.
type connections struct {
	max    int
	shared sharedKnowledge

	mu    sync.Mutex
	byKey map[string]*list.Element
	// recent holds *connectionEntry, the most recently used first.
	recent *list.List
}

// sharedKnowledge is for all clusters.
type sharedKnowledge struct {
	codec        *recordCodec
	observations *observations
	library      *kindsLibrary
	// payloads bounds the memory for payloads of records that actions are at work on.
	payloads *payloadMemory
	// bytes bounds the answers that are being read, nil for no bound.
	bytes *bytebudget.Budget
}

func newSharedKnowledge() sharedKnowledge {
	return sharedKnowledge{
		codec: newRecordCodec(), observations: newObservations(), library: newKindsLibrary(), payloads: newPayloadMemory(),
	}
}

type connectionEntry struct {
	key     string
	cluster *cluster
}

func newConnections(maxKept int, bytes *bytebudget.Budget) *connections {
	shared := newSharedKnowledge()
	shared.bytes = bytes
	return &connections{max: maxKept, shared: shared, byKey: map[string]*list.Element{}, recent: list.New()}
}

// get returns the connection to the target, a new one where its config changed.
func (cs *connections) get(target Target) (*connection, error) {
	kept, err := cs.cluster(target)
	if err != nil {
		return nil, err
	}
	return kept.as(target.Impersonate)
}

func (cs *connections) cluster(target Target) (*cluster, error) {
	if err := CheckConfig(target.Config); err != nil {
		return nil, err
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if element, ok := cs.byKey[target.Key]; ok {
		entry := element.Value.(*connectionEntry)
		if entry.cluster.identity == configIdentity(target.Config) {
			cs.recent.MoveToFront(element)
			return entry.cluster, nil
		}
		cs.removeLocked(element)
	}
	made, err := newCluster(target.Key, target.Config, cs.shared)
	if err != nil {
		return nil, err
	}
	cs.byKey[target.Key] = cs.recent.PushFront(&connectionEntry{key: target.Key, cluster: made})
	for cs.recent.Len() > cs.max {
		cs.removeLocked(cs.recent.Back())
	}
	return made, nil
}

// forget drops what is kept about a cluster, as whatever user.
func (cs *connections) forget(key string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if element, ok := cs.byKey[key]; ok {
		cs.removeLocked(element)
	}
}

func (cs *connections) removeLocked(element *list.Element) {
	entry := element.Value.(*connectionEntry)
	cs.recent.Remove(element)
	delete(cs.byKey, entry.key)
	entry.cluster.close()
}
