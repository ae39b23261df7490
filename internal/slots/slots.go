// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
)

// DefaultPerCluster is the maximum number of concurrent actions in one Cluster. It limits the workers that a slow API
// server can occupy.
const DefaultPerCluster = 4

// Options are the limits and the callbacks of Slots.
type Options struct {
	// Workers is the number of releases that are reconciled at the same time. An eighth of the workers get no slot, but
	// at least one worker if there are several. A third of the workers may run uninstallations that wait for the
	// deletion of objects.
	Workers int

	// PerCluster is the maximum number of concurrent actions in one Cluster. Default: DefaultPerCluster.
	PerCluster int

	// Wake is called after a release in the queue got a slot. Slots holds no lock during the call. Default: no
	// callback.
	Wake func(release types.NamespacedName)

	// Report is called with the number of used slots and the number of releases in the queue when they may have
	// changed. It must not call Slots. Default: no callback.
	Report func(inUse, waiting int)
}

// Claim is the request of a release for a slot.
type Claim struct {
	// Release is the release that needs the slot. The slot counts for its namespace.
	Release types.NamespacedName

	// Cluster is the Cluster of the release.
	Cluster string

	// HelmOp is the name of the HelmOp of the release, in the namespace of the release.
	HelmOp string

	// First is true if the release is not installed yet. A new Cluster must not wait until a thousand others are changed.
	First bool

	// Uninstalling is true for an uninstallation that waits for the deletion of its objects.
	Uninstalling bool
}

// holder returns the HelmOp of a claim.
func (c *Claim) holder() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Release.Namespace, Name: c.HelmOp}
}

// group identifies the claims that differ only in their releases and Clusters. The same limits apply to all of them,
// except for the limit of the Cluster. Their waiters get slots in the order of their requests.
type group struct {
	helmOp              types.NamespacedName
	first, uninstalling bool
}

// group returns the group of a claim.
func (c *Claim) group() group { return group{c.holder(), c.First, c.Uninstalling} }

// place is a Cluster, and a namespace that uses it.
type place struct{ cluster, namespace string }

// place returns the place of a claim.
func (c *Claim) place() place { return place{c.Cluster, c.Release.Namespace} }

// waiter is a release that waits for a slot, or that has a granted slot and has not used it yet.
type waiter struct {
	Claim
	number uint64

	// granted is true if the release has a slot and has not used it yet.
	granted bool

	// asked is true if the current pass requested a slot.
	asked bool
}

// Slots limit the concurrent actions; see the package comment. They are safe for concurrent use.
type Slots struct {
	perCluster int
	wake       func(types.NamespacedName)
	report     func(inUse, waiting int)

	mu sync.Mutex
	// namespaces counts the used slots by namespace. uninstallations counts the slots of uninstallations that wait for
	// the deletion of objects.
	namespaces, uninstallations *fairshare.Pool[string]
	helmOps                     map[types.NamespacedName]int
	// clusters counts the used slots by Cluster, and places by Cluster and namespace.
	clusters map[string]int
	places   map[place]int

	// waiters has all releases in the queues, and the releases with an unused granted slot. groups and inClusters are
	// the queues: both have each of the waiting releases, in the order of their requests.
	waiters    map[types.NamespacedName]*waiter
	groups     map[group][]*waiter
	inClusters map[string][]*waiter
	// waiting is the number of releases in the queues, and enqueued counts the requests.
	waiting  int
	enqueued uint64

	// granted lists the releases that unlock must wake.
	granted []types.NamespacedName
}

// unlock unlocks mu. Then it wakes the releases that got a slot while mu was locked.
func (s *Slots) unlock() {
	granted := s.granted
	s.granted = nil
	s.mu.Unlock()
	for _, release := range granted {
		s.wake(release)
	}
}

// New returns Slots. All of them are free.
func New(options Options) *Slots {
	if options.PerCluster <= 0 {
		options.PerCluster = DefaultPerCluster
	}
	if options.Wake == nil {
		options.Wake = func(types.NamespacedName) {}
	}
	if options.Report == nil {
		options.Report = func(int, int) {}
	}
	workers := options.Workers
	uninstallations := (workers + 2) / 3
	return &Slots{
		perCluster: options.PerCluster, wake: options.Wake, report: options.Report,
		namespaces:      fairshare.NewPool[string](workers, max(1, workers-max(1, workers/8))),
		uninstallations: fairshare.NewPool[string](uninstallations, uninstallations),
		helmOps:         map[types.NamespacedName]int{}, clusters: map[string]int{},
		places:  map[place]int{},
		waiters: map[types.NamespacedName]*waiter{}, groups: map[group][]*waiter{}, inClusters: map[string][]*waiter{},
	}
}

// Acquire takes a slot. Callers must call done to free it. If ok is false, no slot is free: the release waits in the
// queue, and Options.Wake is called when it gets a slot. If the claim of a waiting release has changed, the release
// moves to the end of the queue.
func (s *Slots) Acquire(claim Claim) (done func(), ok bool) {
	s.mu.Lock()
	defer s.unlock()
	defer s.count()
	if !s.grant(claim) {
		return nil, false
	}
	delete(s.waiters, claim.Release)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.unlock()
		s.giveBack(&claim)
		s.count()
	}), true
}

// Request does the same as Acquire, but the release does not use the slot yet: a later Acquire with the same claim uses
// it. Settle frees it if the pass calls neither Acquire nor Keep. Request reports whether the release has a slot.
func (s *Slots) Request(claim Claim) bool {
	s.mu.Lock()
	defer s.unlock()
	defer s.count()
	return s.grant(claim)
}

// Settle ends a pass over a release. If the pass did not request a slot, Settle removes the release from the queue.
func (s *Slots) Settle(release types.NamespacedName) {
	s.mu.Lock()
	defer s.unlock()
	w := s.waiters[release]
	switch {
	case w == nil:
	case w.asked:
		w.asked = false
	default:
		s.leave(w)
		s.count()
	}
}

// Keep keeps the position of a release in the queue, or its granted slot, although the pass does not request a slot.
func (s *Slots) Keep(release types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiters[release]; w != nil {
		w.asked = true
	}
}

// IsGranted reports whether a release has a granted slot and has not used it yet.
func (s *Slots) IsGranted(release types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiters[release]
	return w != nil && w.granted
}

// IsWaiting reports whether a release is in the queue.
func (s *Slots) IsWaiting(release types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiters[release]
	return w != nil && !w.granted
}

// HasClaim reports whether the release of a claim is in the queue with this claim, or has a granted slot for it and has
// not used it yet.
func (s *Slots) HasClaim(claim Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiters[claim.Release]
	return w != nil && w.Claim == claim
}

// Waiting returns the number of releases in the queue.
func (s *Slots) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// grant reports whether a release has a granted slot, or gets one now. Otherwise, it adds the release to the queue.
// Callers of grant and of all functions below must hold mu.
func (s *Slots) grant(claim Claim) bool {
	w := s.waiters[claim.Release]
	if w != nil && w.Claim != claim {
		s.leave(w)
		w = nil
	}
	switch {
	case w == nil && s.fits(&claim):
		s.take(&claim)
		s.waiters[claim.Release] = &waiter{Claim: claim, granted: true}
		return true
	case w == nil:
		s.enqueue(claim)
		return false
	case !w.granted:
		w.asked = true
	}
	return w.granted
}

// fits reports whether there is a slot for a claim.
func (s *Slots) fits(claim *Claim) bool {
	return s.admits(claim.group()) && s.clusters[claim.Cluster] < s.perCluster
}

// admits reports whether a group of claims may have one more slot in a Cluster that has one.
func (s *Slots) admits(g group) bool {
	namespace, held := g.helmOp.Namespace, s.helmOps[g.helmOp]
	left := s.namespaces.Allowance(namespace) - (s.namespaces.Held(namespace) - held)
	return s.namespaces.Admits(namespace) && held < fairshare.Share(left) &&
		(!g.uninstalling || s.uninstallations.Admits(namespace))
}

func (s *Slots) take(claim *Claim) {
	s.namespaces.Take(claim.Release.Namespace)
	s.helmOps[claim.holder()]++
	s.clusters[claim.Cluster]++
	s.places[claim.place()]++
	if claim.Uninstalling {
		s.uninstallations.Take(claim.Release.Namespace)
	}
}

// giveBack frees a slot, and grants free slots to waiting releases.
func (s *Slots) giveBack(claim *Claim) {
	s.namespaces.GiveBack(claim.Release.Namespace)
	decrement(s.helmOps, claim.holder())
	decrement(s.clusters, claim.Cluster)
	decrement(s.places, claim.place())
	if claim.Uninstalling {
		s.uninstallations.GiveBack(claim.Release.Namespace)
	}
	for w := s.next(); w != nil; w = s.next() {
		s.dequeue(w)
		w.granted = true
		s.take(&w.Claim)
		s.granted = append(s.granted, w.Release)
	}
}

// decrement reduces a number of used slots. It removes the number at zero.
func decrement[Key comparable](used map[Key]int, key Key) {
	if used[key]--; used[key] <= 0 {
		delete(used, key)
	}
}

// next returns the waiter that gets the next slot; nil if there is none. The shares of all Clusters choose the Cluster.
// In the Cluster, the namespace with the fewest slots there is first. Otherwise a namespace with many slots in other
// Clusters would wait there as long as another namespace has waiters.
func (s *Slots) next() *waiter {
	best := s.first()
	if best == nil {
		return nil
	}
	for _, w := range s.inClusters[best.Cluster] {
		held, others := s.places[w.place()], s.places[best.place()]
		if (held < others || held == others && s.isBefore(w, best)) && s.admits(w.group()) {
			best = w
		}
	}
	return best
}

// first returns the waiter that may have a slot and is before all others by the shares of all Clusters; nil if there is
// none. A queue may have thousands of waiters. So first reads a queue only up to the first waiter whose Cluster has a
// free slot: few Clusters use all their slots.
func (s *Slots) first() *waiter {
	if s.namespaces.IsFull() {
		return nil
	}
	var best *waiter
	hasSlot := func(w *waiter) bool { return s.clusters[w.Cluster] < s.perCluster }
	for g, queue := range s.groups {
		if !s.isBefore(queue[0], best) || !s.admits(g) {
			continue
		}
		if at := slices.IndexFunc(queue, hasSlot); at >= 0 && s.isBefore(queue[at], best) {
			best = queue[at]
		}
	}
	return best
}

// isBefore reports whether a waiter gets a slot before another waiter. The other waiter may be nil.
func (s *Slots) isBefore(w, other *waiter) bool {
	if other == nil {
		return true
	}
	if held, others := s.namespaces.Held(w.Release.Namespace), s.namespaces.Held(other.Release.Namespace); held != others {
		return held < others
	}
	if held, others := s.helmOps[w.holder()], s.helmOps[other.holder()]; held != others {
		return held < others
	}
	if w.First != other.First {
		return w.First
	}
	return w.number < other.number
}

func (s *Slots) enqueue(claim Claim) {
	s.enqueued++
	w := &waiter{Claim: claim, number: s.enqueued, asked: true}
	s.waiters[claim.Release] = w
	s.groups[w.group()] = append(s.groups[w.group()], w)
	s.inClusters[w.Cluster] = append(s.inClusters[w.Cluster], w)
	s.waiting++
}

// leave removes a waiter and frees its granted slot.
func (s *Slots) leave(w *waiter) {
	delete(s.waiters, w.Release)
	if w.granted {
		s.giveBack(&w.Claim)
		return
	}
	s.dequeue(w)
}

func (s *Slots) dequeue(w *waiter) {
	remove(s.groups, w.group(), w)
	remove(s.inClusters, w.Cluster, w)
	s.waiting--
}

// remove removes a waiter from one of the queues. It removes the queue with its last waiter.
func remove[Key comparable](queues map[Key][]*waiter, key Key, w *waiter) {
	queue := queues[key]
	at, _ := slices.BinarySearchFunc(queue, w.number,
		func(other *waiter, number uint64) int { return cmp.Compare(other.number, number) })
	if queue = slices.Delete(queue, at, at+1); len(queue) == 0 {
		delete(queues, key)
		return
	}
	queues[key] = queue
}

func (s *Slots) count() { s.report(s.namespaces.Total(), s.waiting) }
