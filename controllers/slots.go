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
	"slices"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultSlotsPerCluster is how many Helm actions may run in one Cluster at the same time. A Cluster whose API server has become
// slow takes no more workers than this from the others.
const defaultSlotsPerCluster = 4

// actionSlots bound the Helm actions that run at the same time, because hooks may hold one for minutes. No HelmOp gets all
// workers: a chart whose hooks wait for nodes must not keep the CNI, which brings them, from its Clusters.
//
// What finds no slot holds no worker: it stands in line and is woken when one is its own. The next slot goes to the HelmOp that
// holds the fewest, and there to the release that has waited for the longest and whose Cluster has one left; to one that is not
// there yet before all that are to be changed.
type actionSlots struct {
	waker waker

	// workers are shared by the HelmOps: each gets at most three quarters of what the others leave, and one at least.
	workers int

	// all bounds the actions together. The other workers look at releases, without which nobody would come to stand in line.
	all int

	perCluster int

	// perEnding bounds the uninstallations that wait for others to take away what they made, which may never happen.
	perEnding int

	mu         sync.Mutex
	total      int
	ending     int
	in, helmOp map[string]int

	// places are the releases that stand in line or were given a slot that they have not taken yet. lines are those that stand, by
	// HelmOp, in the order in which they came.
	places map[ctrl.Request]*place
	lines  map[string][]*place
	came   uint64
}

// slotClaim is what a release needs a slot for.
type slotClaim struct {
	release         ctrl.Request
	cluster, helmOp string

	// first tells that the release is not there yet: its Cluster must not wait until a thousand others are changed.
	first bool

	// ending tells that it is an uninstallation that waits until what it deletes is gone.
	ending bool
}

// place is a release that found no slot.
type place struct {
	slotClaim
	number uint64

	// given tells that it has a slot by now.
	given bool

	// asked tells that the pass that is under way did ask for it.
	asked bool
}

// newActionSlots bounds the actions of a number of workers, and of each Cluster.
func newActionSlots(workers, perCluster int) *actionSlots {
	if perCluster <= 0 {
		perCluster = defaultSlotsPerCluster
	}
	return &actionSlots{
		workers: workers, all: max(1, workers-max(1, workers/8)), perCluster: perCluster, perEnding: max(1, workers/4),
		in: map[string]int{}, helmOp: map[string]int{}, places: map[ctrl.Request]*place{}, lines: map[string][]*place{},
	}
}

// acquire takes a slot; done gives it back. If ok is false, there is none: the release is in line, and is woken in its turn.
func (s *actionSlots) acquire(claim slotClaim) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.count()
	at := s.places[claim.release]
	if at != nil && at.slotClaim != claim {
		s.leave(at)
		at = nil
	}
	switch {
	case at != nil && at.given:
		delete(s.places, claim.release)
	case at != nil:
		at.asked = true
		return nil, false
	case !s.fits(claim):
		s.came++
		at = &place{slotClaim: claim, number: s.came, asked: true}
		s.places[claim.release] = at
		s.lines[claim.helmOp] = append(s.lines[claim.helmOp], at)
		return nil, false
	default:
		s.take(claim)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.giveBack(claim)
		s.count()
	}, true
}

// slot takes a slot for what a pass is about to do.
func (r *releaseReconciler) slot(p *releasePass) (done func(), ok bool) {
	return r.slots.acquire(slotClaim{
		release: ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)}, cluster: p.target.Key, helmOp: p.desired.Owner,
		first: isFirst(p.release),
	})
}

// settle ends a pass over a release: one that did not ask for a slot needs none any more.
func (s *actionSlots) settle(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.places[release]
	if at != nil && !at.asked {
		s.leave(at)
		s.count()
		return
	}
	if at != nil {
		at.asked = false
	}
}

// hasTurn tells whether a release was given a slot that it has not taken yet.
func (s *actionSlots) hasTurn(release ctrl.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.places[release]
	return at != nil && at.given
}

// keep lets a release keep its place though the pass that is under way is not going to ask for it.
func (s *actionSlots) keep(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.places[release]; at != nil {
		at.asked = true
	}
}

// fits tells whether there is a slot. The caller holds mu, here and below.
func (s *actionSlots) fits(claim slotClaim) bool {
	return s.admits(claim.helmOp) && s.in[claim.cluster] < s.perCluster && (!claim.ending || s.ending < s.perEnding)
}

// admits tells whether a HelmOp may have one more slot.
func (s *actionSlots) admits(helmOp string) bool {
	held := s.helmOp[helmOp]
	left := s.workers - (s.total - held)
	return s.total < s.all && held < max(1, left*3/4)
}

func (s *actionSlots) take(claim slotClaim) {
	s.total++
	s.in[claim.cluster]++
	s.helmOp[claim.helmOp]++
	if claim.ending {
		s.ending++
	}
}

// giveBack frees a slot and gives it, and what else is free by that, to those who wait.
func (s *actionSlots) giveBack(claim slotClaim) {
	s.total--
	decrement(s.in, claim.cluster)
	decrement(s.helmOp, claim.helmOp)
	if claim.ending {
		s.ending--
	}
	for at := s.next(); at != nil; at = s.next() {
		s.unline(at)
		at.given = true
		s.take(at.slotClaim)
		s.waker.wakeFirst(at.release)
	}
}

// next is who gets a slot now; nil if there is none for anybody.
func (s *actionSlots) next() *place {
	var best *place
	for helmOp, line := range s.lines {
		if !s.admits(helmOp) {
			continue
		}
		for _, at := range line {
			if s.isBefore(at, best) && s.fits(at.slotClaim) {
				best = at
			}
		}
	}
	return best
}

// isBefore tells whether a release gets a slot before another one, which may be nil.
func (s *actionSlots) isBefore(at, other *place) bool {
	if other == nil {
		return true
	}
	if held, others := s.helmOp[at.helmOp], s.helmOp[other.helmOp]; held != others {
		return held < others
	}
	if at.first != other.first {
		return at.first
	}
	return at.number < other.number
}

// leave forgets a place, and gives back what it was given.
func (s *actionSlots) leave(at *place) {
	delete(s.places, at.release)
	if at.given {
		s.giveBack(at.slotClaim)
		return
	}
	s.unline(at)
}

func (s *actionSlots) unline(at *place) {
	line := slices.DeleteFunc(s.lines[at.helmOp], func(other *place) bool { return other == at })
	if len(line) == 0 {
		delete(s.lines, at.helmOp)
		return
	}
	s.lines[at.helmOp] = line
}

// count tells the metrics how many slots are taken and how many releases wait for one.
func (s *actionSlots) count() {
	waiting := 0
	for _, line := range s.lines {
		waiting += len(line)
	}
	slotsInUse.Set(float64(s.total))
	slotsWaiting.Set(float64(waiting))
}

// decrement forgets what has become zero, so that nothing is left of Clusters and HelmOps that are gone.
func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}
