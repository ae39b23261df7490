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

package controllers

import (
	"sync"
	"time"
)

const (
	// slotsPerCluster is how many Helm actions may run in one Cluster at the same time. A Cluster whose API server has
	// become slow takes no more workers than this from the others.
	slotsPerCluster = 4

	// slotRetry is how soon an action that found no slot looks again.
	slotRetry = 2 * time.Second
)

// actionSlots bound the Helm actions that run at the same time, because hooks may hold one for minutes. No HelmOp gets all
// workers: a chart whose hooks wait for nodes must not keep the CNI, which brings them, from its Clusters.
type actionSlots struct {
	perHelmOp int

	// perWaiting bounds the uninstallations that wait for others to take away what they made, which may never happen.
	perWaiting int

	mu      sync.Mutex
	waiting int
	in      map[string]int
	helmOp  map[string]int
}

// newActionSlots bounds the actions of a number of workers.
func newActionSlots(workers int) *actionSlots {
	return &actionSlots{perHelmOp: max(1, workers*3/4), perWaiting: max(1, workers/4), in: map[string]int{}, helmOp: map[string]int{}}
}

// acquire takes a slot, if there is one; done gives it back.
func (s *actionSlots) acquire(cluster, helmOp string) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in[cluster] >= slotsPerCluster || s.helmOp[helmOp] >= s.perHelmOp {
		return nil, false
	}
	s.in[cluster]++
	s.helmOp[helmOp]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		decrement(s.in, cluster)
		decrement(s.helmOp, helmOp)
	}, true
}

// acquireWaiting takes a slot for an uninstallation that waits.
func (s *actionSlots) acquireWaiting(cluster, helmOp string) (done func(), ok bool) {
	if !s.addWaiting(1) {
		return nil, false
	}
	release, ok := s.acquire(cluster, helmOp)
	if !ok {
		s.addWaiting(-1)
		return nil, false
	}
	return func() {
		release()
		s.addWaiting(-1)
	}, true
}

func (s *actionSlots) addWaiting(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting+n > s.perWaiting {
		return false
	}
	s.waiting += n
	return true
}

// decrement forgets what has become zero, so that nothing is left of Clusters and HelmOps that are gone.
func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}
