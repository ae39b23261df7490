// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
)

// reference is a second implementation of Slots. It has no index: it counts the used slots and compares all waiters
// each time. So it is slow, and its rules are easy to read.
type reference struct {
	perCluster                  int
	namespaces, uninstallations *fairshare.Pool[string]
	used                        []Claim
	waiters                     []*waiter
	enqueued                    uint64
	woken                       []types.NamespacedName
}

func newReference(workers, perCluster int) *reference {
	ending := (workers + 2) / 3
	return &reference{
		perCluster: perCluster, namespaces: fairshare.NewPool[string](workers, max(1, workers-max(1, workers/8))),
		uninstallations: fairshare.NewPool[string](ending, ending),
	}
}

// held returns the number of used slots whose claims match.
func (r *reference) held(matches func(c *Claim) bool) (count int) {
	for i := range r.used {
		if matches(&r.used[i]) {
			count++
		}
	}
	return count
}

func (r *reference) heldBy(helmOp types.NamespacedName) int {
	return r.held(func(c *Claim) bool { return c.holder() == helmOp })
}

func (r *reference) fits(claim *Claim) bool {
	namespace, held := claim.Release.Namespace, r.heldBy(claim.holder())
	left := r.namespaces.Allowance(namespace) - (r.namespaces.Held(namespace) - held)
	return r.namespaces.Admits(namespace) && held < fairshare.Share(left) &&
		r.held(func(c *Claim) bool { return c.Cluster == claim.Cluster }) < r.perCluster &&
		(!claim.Uninstalling || r.uninstallations.Admits(namespace))
}

func (r *reference) isBefore(w, other *waiter) bool {
	if held, others := r.namespaces.Held(w.Release.Namespace), r.namespaces.Held(other.Release.Namespace); held != others {
		return held < others
	}
	if held, others := r.heldBy(w.holder()), r.heldBy(other.holder()); held != others {
		return held < others
	}
	if w.First != other.First {
		return w.First
	}
	return w.number < other.number
}

func (r *reference) isBeforeInCluster(w, other *waiter) bool {
	heldAt := func(at place) int { return r.held(func(c *Claim) bool { return c.place() == at }) }
	if held, others := heldAt(w.place()), heldAt(other.place()); held != others {
		return held < others
	}
	return r.isBefore(w, other)
}

// next compares all waiters that fit, and then those of the selected Cluster.
func (r *reference) next() (best *waiter) {
	for _, w := range r.waiters {
		if !w.granted && r.fits(&w.Claim) && (best == nil || r.isBefore(w, best)) {
			best = w
		}
	}
	if best == nil {
		return nil
	}
	for _, w := range r.waiters {
		if !w.granted && w.Cluster == best.Cluster && r.fits(&w.Claim) && r.isBeforeInCluster(w, best) {
			best = w
		}
	}
	return best
}

func (r *reference) take(claim *Claim) {
	r.used = append(r.used, *claim)
	r.namespaces.Take(claim.Release.Namespace)
	if claim.Uninstalling {
		r.uninstallations.Take(claim.Release.Namespace)
	}
}

func (r *reference) giveBack(claim *Claim) {
	at := slices.Index(r.used, *claim)
	r.used = slices.Delete(r.used, at, at+1)
	r.namespaces.GiveBack(claim.Release.Namespace)
	if claim.Uninstalling {
		r.uninstallations.GiveBack(claim.Release.Namespace)
	}
	for w := r.next(); w != nil; w = r.next() {
		w.granted = true
		r.take(&w.Claim)
		r.woken = append(r.woken, w.Release)
	}
}

func (r *reference) find(release types.NamespacedName) *waiter {
	for _, w := range r.waiters {
		if w.Release == release {
			return w
		}
	}
	return nil
}

func (r *reference) remove(w *waiter) {
	r.waiters = slices.DeleteFunc(r.waiters, func(other *waiter) bool { return other == w })
}

func (r *reference) leave(w *waiter) {
	r.remove(w)
	if w.granted {
		r.giveBack(&w.Claim)
	}
}

func (r *reference) acquire(claim Claim) bool {
	ok := r.request(claim)
	if ok {
		r.remove(r.find(claim.Release))
	}
	return ok
}

func (r *reference) request(claim Claim) bool {
	w := r.find(claim.Release)
	if w != nil && w.Claim != claim {
		r.leave(w)
		w = nil
	}
	switch {
	case w != nil && w.granted:
		return true
	case w != nil:
		w.asked = true
		return false
	}
	w = &waiter{Claim: claim}
	if w.granted = r.fits(&claim); w.granted {
		r.take(&claim)
	} else {
		r.enqueued++
		w.number, w.asked = r.enqueued, true
	}
	r.waiters = append(r.waiters, w)
	return w.granted
}

func (r *reference) settle(release types.NamespacedName) {
	switch w := r.find(release); {
	case w == nil:
	case w.asked:
		w.asked = false
	default:
		r.leave(w)
	}
}

// pair has the same releases in Slots and in the reference.
type pair struct {
	*bench
	reference *reference
	woken     []types.NamespacedName
	claims    []Claim
	running   map[types.NamespacedName]func()
}

// newPair returns a pair with free slots. Releases share few Clusters, HelmOps and namespaces, so that all limits are
// reached.
func newPair(t *testing.T, random *rand.Rand) *pair {
	t.Helper()
	workers, perCluster := 1+random.IntN(24), 1+random.IntN(4)
	p := &pair{
		bench: newBench(t, workers, perCluster), reference: newReference(workers, perCluster),
		running: map[types.NamespacedName]func(){},
	}
	p.slots.wake = func(release types.NamespacedName) { p.woken = append(p.woken, release) }
	for i := range 60 {
		p.claims = append(p.claims, claimOf(fmt.Sprint(random.IntN(4)), fmt.Sprint(i), "", ""))
		p.change(random, i)
	}
	return p
}

// change changes the claim of a release.
func (p *pair) change(random *rand.Rand, i int) {
	c := &p.claims[i]
	c.Cluster, c.HelmOp = fmt.Sprint(random.IntN(12)), fmt.Sprint(random.IntN(3))
	c.First, c.Uninstalling = random.IntN(3) == 0, random.IntN(3) == 0
}

// step does one random operation with both.
func (p *pair) step(random *rand.Rand) {
	p.Helper()
	i := random.IntN(len(p.claims))
	claim := p.claims[i]
	done, isRunning := p.running[claim.Release]
	switch operation := random.IntN(8); {
	case isRunning:
		delete(p.running, claim.Release)
		done()
		p.reference.giveBack(&claim)
		if operation < 4 {
			p.change(random, i)
		}
	case operation == 0:
		p.slots.Settle(claim.Release)
		p.reference.settle(claim.Release)
	case operation == 1:
		p.slots.Keep(claim.Release)
		if w := p.reference.find(claim.Release); w != nil {
			w.asked = true
		}
	default:
		if operation == 2 {
			p.change(random, i)
			claim = p.claims[i]
		}
		if random.IntN(3) == 0 {
			if got, want := p.slots.Request(claim), p.reference.request(claim); got != want {
				p.Fatalf("%+v has a slot: %t, want %t", claim, got, want)
			}
			return
		}
		done, ok := p.slots.Acquire(claim)
		if want := p.reference.acquire(claim); ok != want {
			p.Fatalf("%+v has a slot: %t, want %t", claim, ok, want)
		}
		if ok {
			p.running[claim.Release] = done
		}
	}
}

// compare checks that both have the same waiters, and have granted slots to the same releases in the same order.
func (p *pair) compare() {
	p.Helper()
	if !slices.Equal(p.woken, p.reference.woken) {
		p.Fatalf("woken: %v, want %v", p.woken, p.reference.woken)
	}
	waiting := 0
	for _, claim := range p.claims {
		w := p.reference.find(claim.Release)
		isWaiting, isGranted := w != nil && !w.granted, w != nil && w.granted
		if p.slots.IsWaiting(claim.Release) != isWaiting || p.slots.IsGranted(claim.Release) != isGranted {
			p.Fatalf("%s waits: %t, has a slot: %t", claim.Release, isWaiting, isGranted)
		}
		if isWaiting {
			waiting++
		}
	}
	if p.waiting != waiting || p.inUse != len(p.reference.used) {
		p.Fatalf("reported: %d in use, %d waiting; want %d and %d", p.inUse, p.waiting, len(p.reference.used), waiting)
	}
}

// TestSlotsAreGrantedAsByReference checks in random orders of operations that the queues grant each slot to the same
// release as a comparison of all waiters.
func TestSlotsAreGrantedAsByReference(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 2))
			p := newPair(t, random)
			for range 400 {
				p.step(random)
				p.compare()
			}
			if len(p.woken) == 0 {
				t.Error("no waiter got a slot")
			}
		})
	}
}

// BenchmarkNext ends an action. The slot goes to a waiter, and the release of the action waits again.
func BenchmarkNext(b *testing.B) {
	for _, fleet := range []struct {
		name    string
		claimAt func(i int) Claim
	}{
		{"Clusters of one HelmOp", func(i int) Claim {
			return claimFor(fmt.Sprint(i), fmt.Sprint(i), "cni")
		}},
		{"Clusters of 20 HelmOps", func(i int) Claim {
			return claimFor(fmt.Sprint(i), fmt.Sprint(i/20), fmt.Sprint(i%20))
		}},
		{"Clusters with own namespaces", func(i int) Claim {
			return claimOf(fmt.Sprint(i), "cni", fmt.Sprint(i), "cni")
		}},
	} {
		for _, waiters := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d waiters", fleet.name, waiters), func(b *testing.B) {
				benchmarkNext(b, waiters, fleet.claimAt)
			})
		}
	}
}

func benchmarkNext(b *testing.B, waiters int, claimAt func(i int) Claim) {
	b.Helper()
	type action struct {
		claim Claim
		done  func()
	}
	var running []action
	var woken []types.NamespacedName
	claims := map[types.NamespacedName]Claim{}
	waiting := 0
	s := New(Options{
		Workers: 24, Wake: func(release types.NamespacedName) { woken = append(woken, release) },
		Report: func(_, count int) { waiting = count },
	})
	pass := func(claim Claim) {
		if done, ok := s.Acquire(claim); ok {
			running = append(running, action{claim, done})
		}
	}
	for i := 0; waiting < waiters; i++ {
		claim := claimAt(i)
		claims[claim.Release] = claim
		pass(claim)
	}
	for b.Loop() {
		ended := running[0]
		running = running[1:]
		ended.done()
		for _, release := range woken {
			pass(claims[release])
		}
		woken = woken[:0]
		pass(ended.claim)
	}
}
