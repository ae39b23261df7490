// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// world has releases of several namespaces. They are created, act and end in a random order.
type world struct {
	*testing.T
	random  *rand.Rand
	slots   *Slots
	workers int

	open map[types.NamespacedName]Claim
	// holders are the releases with a slot. The value ends the action; it is nil for a slow read before the action.
	holders map[types.NamespacedName]func()
	woken   []types.NamespacedName
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		T: t, random: random, workers: 1 + random.IntN(40),
		open: map[types.NamespacedName]Claim{}, holders: map[types.NamespacedName]func(){},
	}
	w.slots = New(Options{
		Workers: w.workers, PerCluster: 1 + random.IntN(5),
		Wake: func(release types.NamespacedName) { w.woken = append(w.woken, release) },
	})
	return w
}

// anyClaim returns the claim of a new release. The first namespace has most of the HelmOps.
func (w *world) anyClaim(number int) Claim {
	namespace := max(0, w.random.IntN(12)-7)
	claim := claimOf(fmt.Sprint(namespace), fmt.Sprint(number), fmt.Sprint(w.random.IntN(30)),
		fmt.Sprint(w.random.IntN(1+20/(1+namespace))))
	claim.First, claim.Uninstalling = w.random.IntN(4) == 0, w.random.IntN(6) == 0
	return claim
}

// pass makes a pass over a release, and over the releases that get its slot if it does not need a slot any more. Some
// passes request the slot before they read the records.
func (w *world) pass(claim Claim) {
	w.Helper()
	if w.random.IntN(2) == 0 || w.read(claim) {
		w.begin(claim)
	}
	w.slots.Settle(claim.Release)
	w.passWoken()
}

// read requests a slot and reads the records. It reports whether the pass begins the action.
func (w *world) read(claim Claim) bool {
	if !w.slots.Request(claim) {
		return false
	}
	switch w.random.IntN(4) {
	case 0: // The read is slow.
		w.slots.Keep(claim.Release)
		w.holders[claim.Release] = nil
		return false
	case 1: // There is nothing to do.
		delete(w.open, claim.Release)
		return false
	default:
		return true
	}
}

// begin begins the action of a release if the release gets a slot.
func (w *world) begin(claim Claim) {
	if done, ok := w.slots.Acquire(claim); ok {
		w.holders[claim.Release] = done
	}
}

// endOne ends one running action or slow read, and makes passes over the releases that were woken.
func (w *world) endOne() {
	w.Helper()
	releases := make([]types.NamespacedName, 0, len(w.holders))
	for release := range w.holders {
		releases = append(releases, release)
	}
	slices.SortFunc(releases, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	release := releases[w.random.IntN(len(releases))]
	done := w.holders[release]
	delete(w.holders, release)
	if done == nil {
		w.begin(w.open[release])
		w.slots.Settle(release)
		if w.holders[release] == nil {
			w.Fatalf("%s lost its slot during its read", release)
		}
		return
	}
	delete(w.open, release)
	done()
	w.passWoken()
}

// passWoken makes passes over the releases that were woken.
func (w *world) passWoken() {
	w.Helper()
	for len(w.woken) > 0 {
		release := w.woken[0]
		w.woken = w.woken[1:]
		if w.random.IntN(10) == 0 { // The release does not need a slot any more.
			delete(w.open, release)
			w.slots.Settle(release)
			continue
		}
		w.pass(w.open[release])
		if w.slots.IsWaiting(release) {
			w.Fatalf("%s was woken and has no slot", release)
		}
	}
}

// check compares the slots with their holders. No limit may be exceeded, and no free slot may be idle if a waiter may
// have it.
func (w *world) check() {
	w.Helper()
	total, uninstallations := 0, map[string]int{}
	namespaces, helmOps, clusters := map[string]int{}, map[types.NamespacedName]int{}, map[string]int{}
	for release := range w.holders {
		claim := w.open[release]
		total++
		namespaces[release.Namespace]++
		helmOps[claim.holder()]++
		clusters[claim.Cluster]++
		if claim.Uninstalling {
			uninstallations[release.Namespace]++
		}
	}
	all := max(1, w.workers-max(1, w.workers/8))
	if total > all {
		w.Fatalf("%d actions of %d workers", total, w.workers)
	}
	for namespace, held := range namespaces {
		if held > 1 && held > w.workers*3/4 {
			w.Fatalf("namespace %s holds %d slots of %d workers", namespace, held, w.workers)
		}
	}
	if len(namespaces) == 1 && total == all && all > 1 {
		w.Fatalf("one namespace holds all %d slots", all)
	}
	for cluster, held := range clusters {
		if held > w.slots.perCluster {
			w.Fatalf("%d actions in Cluster %s", held, cluster)
		}
	}
	for _, claim := range w.open {
		if w.slots.IsWaiting(claim.Release) && w.mayHave(&claim, total, namespaces, helmOps, clusters, uninstallations) {
			w.Fatalf("%+v waits though it may have a slot: %d of %d are in use, by namespace %v", claim, total, all, namespaces)
		}
	}
}

// mayHave implements the rule in another way than the code.
func (w *world) mayHave(claim *Claim, total int, namespaces map[string]int, helmOps map[types.NamespacedName]int,
	clusters, uninstallations map[string]int,
) bool {
	mayTake := func(base, size, total, own int) (bool, int) {
		left := base - total + own
		most := left * 3 / 4
		if size-(total-own)-1 < most {
			most = size - (total - own) - 1
		}
		if most < 1 {
			most = 1
		}
		return total < size && own < most, most
	}
	namespace := claim.Release.Namespace
	ok, most := mayTake(w.workers, max(1, w.workers-max(1, w.workers/8)), total, namespaces[namespace])
	own := helmOps[claim.holder()]
	ok = ok && own < max(1, (most-namespaces[namespace]+own)*3/4) && clusters[claim.Cluster] < w.slots.perCluster
	if claim.Uninstalling {
		waiting := 0
		for _, n := range uninstallations {
			waiting += n
		}
		mayEnd, _ := mayTake((w.workers+2)/3, (w.workers+2)/3, waiting, uninstallations[namespace])
		ok = ok && mayEnd
	}
	return ok
}

// TestEveryReleaseGetsASlot runs random releases through the slots. All limits must hold at all times. No slot may be
// idle if a waiter may have it. Each release must get a slot after others have ended.
func TestEveryReleaseGetsASlot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for number := range 150 {
				claim := w.anyClaim(number)
				w.open[claim.Release] = claim
				w.pass(claim)
				if len(w.holders) > 0 && w.random.IntN(3) == 0 {
					w.endOne()
				}
				w.check()
			}
			for len(w.open) > 0 {
				if len(w.holders) == 0 {
					t.Fatalf("%d releases wait without a holder", len(w.open))
				}
				w.endOne()
				w.check()
			}
		})
	}
}

// TestNamespaceWithEndlessActionsLeavesSlots checks that the releases of all other namespaces get slots although no
// action of the first namespace ends.
func TestNamespaceWithEndlessActionsLeavesSlots(t *testing.T) {
	t.Parallel()
	for workers := 3; workers <= 40; workers++ {
		b := newBench(t, workers, 4)
		b.fill("hostile", 5, 12, false)
		for i := range 100 {
			name := fmt.Sprint("other-", i)
			b.pass(claimOf(name, name, name, "web"))
		}
		served := 0
		for served < 100 {
			ended := false
			for name := range b.held {
				if len(name) > 6 && name[:6] == "other-" {
					b.end(name)
					served, ended = served+1, true
					break
				}
			}
			if !ended {
				t.Fatalf("%d workers: %d of 100 namespaces were served", workers, served)
			}
			for _, name := range b.woken {
				if name[:6] != "other-" {
					continue
				}
				b.want(claimOf(name, name, name, "web"), true)
			}
			b.woken = nil
		}
	}
}
