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
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// slotBench is releases that take slots and give them back.
type slotBench struct {
	*testing.T
	slots *actionSlots
	queue *wokenQueue
	held  map[string]func()
}

// wokenQueue holds who was woken.
type wokenQueue struct {
	priorityqueue.PriorityQueue[ctrl.Request]

	*testing.T
	woken []string
}

func (q *wokenQueue) AddWithOpts(opts priorityqueue.AddOpts, requests ...ctrl.Request) {
	if opts.Priority == nil || *opts.Priority != priorityOfTurn {
		q.Errorf("woken with other than the highest priority: %+v", opts)
	}
	for _, request := range requests {
		q.woken = append(q.woken, request.Name)
	}
}

func newSlotBench(t *testing.T, workers, perCluster int) *slotBench {
	t.Helper()
	b := &slotBench{T: t, slots: newActionSlots(workers, perCluster), held: map[string]func(){}}
	b.queue = &wokenQueue{T: t}
	if err := b.slots.waker.source().Start(t.Context(), b.queue); err != nil {
		t.Fatal(err)
	}
	return b
}

func claimFor(release, cluster, helmOp string) slotClaim {
	return slotClaim{release: requestFor(release), cluster: cluster, helmOp: helmOp}
}

// pass is a pass over a release that needs a slot. It tells whether it got one, which it holds until end.
func (b *slotBench) pass(claim slotClaim) bool {
	b.Helper()
	done, ok := b.slots.acquire(claim)
	b.slots.settle(claim.release)
	if ok {
		b.held[claim.release.Name] = done
	}
	return ok
}

func (b *slotBench) want(claim slotClaim, want bool) {
	b.Helper()
	if got := b.pass(claim); got != want {
		b.Fatalf("%s of %s in %s has a slot: %t, want %t", claim.release.Name, claim.helmOp, claim.cluster, got, want)
	}
}

func (b *slotBench) end(release string) {
	b.Helper()
	b.held[release]()
	delete(b.held, release)
}

// wantWoken says who was woken since it was asked last.
func (b *slotBench) wantWoken(releases ...string) {
	b.Helper()
	if !slices.Equal(b.queue.woken, releases) {
		b.Fatalf("woken: %v, want %v", b.queue.woken, releases)
	}
	b.queue.woken = nil
}

// wantEmpty says that nothing is left of releases that are done.
func (b *slotBench) wantEmpty() {
	b.Helper()
	s := b.slots
	if s.total != 0 || s.ending != 0 || len(s.in)+len(s.helmOp)+len(s.places)+len(s.lines) != 0 || len(b.queue.woken) != 0 {
		b.Errorf("something is left: %+v, woken: %v", s, b.queue.woken)
	}
}

func TestSlotsOfClustersAndHelmOps(t *testing.T) {
	t.Parallel()
	b := newSlotBench(t, 8, 0)
	for i := range defaultSlotsPerCluster {
		b.want(claimFor(strconv.Itoa(i), "slow", "a"), true)
	}
	b.want(claimFor("b0", "slow", "b"), false) // The Cluster has all that it gets.
	b.want(claimFor("4", "fine", "a"), true)
	b.want(claimFor("5", "fine", "a"), true)
	b.want(claimFor("6", "other", "a"), false) // Six of eight workers: the HelmOp has all that it gets.
	b.want(claimFor("b1", "other", "b"), true)
	b.want(claimFor("c0", "other", "c"), false) // One worker looks at what comes.
	b.end("0")
	b.wantWoken("c0") // Its HelmOp has none yet.
	b.want(claimFor("c0", "other", "c"), true)
	b.end("b1")
	b.wantWoken("b0")
	b.want(claimFor("b0", "slow", "b"), true)
	b.end("1")
	b.wantWoken() // One HelmOp gets three quarters of what others leave: four of six.
	b.end("2")
	b.wantWoken("6")
	b.want(claimFor("6", "other", "a"), true)
	for _, name := range slices.Collect(maps.Keys(b.held)) {
		b.end(name)
	}
	b.wantEmpty()
	one := newSlotBench(t, 1, 1)
	one.want(claimFor("a", "c", "h"), true)
	one.want(claimFor("b", "c", "h"), false)
}

// TestSomebodyAlwaysLooks holds that actions, which hooks may hold for minutes, never take all workers, however few these are.
func TestSomebodyAlwaysLooks(t *testing.T) {
	t.Parallel()
	for workers := 2; workers <= 40; workers++ {
		b := newSlotBench(t, workers, 1)
		taken := 0
		for i := range workers {
			if name := fmt.Sprint(i); b.pass(claimFor(name, name, name)) {
				taken++
			}
		}
		if taken >= workers || taken < workers-workers/8-1 {
			t.Errorf("%d of %d workers act", taken, workers)
		}
	}
}

// TestTurnIsKept holds that a release which was given a slot has its turn until it takes it, or lets it go.
func TestTurnIsKept(t *testing.T) {
	t.Parallel()
	b := newSlotBench(t, 8, 1)
	b.want(claimFor("a", "c", "h"), true)
	b.want(claimFor("b", "c", "h"), false)
	if b.slots.hasTurn(requestFor("b")) {
		t.Error("who stands in line has a turn")
	}
	b.end("a")
	b.wantWoken("b")
	// Its read is slow: it comes back.
	b.slots.keep(requestFor("b"))
	b.slots.settle(requestFor("b"))
	if !b.slots.hasTurn(requestFor("b")) {
		t.Error("the turn is lost")
	}
	b.slots.settle(requestFor("b"))
	if b.slots.hasTurn(requestFor("b")) {
		t.Error("who needs no slot keeps it")
	}
	b.wantEmpty()
}

// TestSlotsAreShared holds that HelmOps that came late with little work need not wait until one with much is done, and that releases
// of one Cluster are served in the order in which they came.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	b := newSlotBench(t, 8, 1)
	for i := range 100 {
		claim := claimFor(fmt.Sprintf("big-%d", i), fmt.Sprintf("c%d", i), "big")
		b.want(claim, i < 6)
	}
	b.want(claimFor("late-0", "c0", "late"), false)
	b.want(claimFor("later-0", "c0", "later"), false)
	b.end("big-1")
	b.wantWoken("big-6")
	b.end("big-0")
	b.wantWoken("late-0")
	b.want(claimFor("late-0", "c0", "late"), true)
	b.end("late-0")
	b.wantWoken("later-0")
}

// TestSlotGoesToWhatIsNotThereYet holds that a new Cluster does not wait until a chart was changed in a thousand others, and that
// HelmOps still share the slots.
func TestSlotGoesToWhatIsNotThereYet(t *testing.T) {
	t.Parallel()
	b := newSlotBench(t, 8, 1)
	for i := range 100 {
		b.want(claimFor(fmt.Sprintf("old-%d", i), fmt.Sprintf("c%d", i), "cni"), i < 6)
	}
	b.want(claimFor("other", "c50", "other"), true)
	b.want(claimFor("other-late", "c51", "other"), false)
	first := claimFor("new", "new", "cni")
	first.first = true
	b.want(first, false)
	b.end("old-0")
	b.wantWoken("other-late") // Its HelmOp holds fewer.
	b.end("old-1")
	b.wantWoken()
	b.end("old-2")
	b.wantWoken("new")
	b.want(first, true)
	b.end("new")
	b.wantWoken("old-6")
}

// TestSlotIsNotKeptFromOthers holds that one that does not need its slot any more, or whose pass could not ask for it, neither keeps
// it nor loses it.
func TestSlotIsNotKeptFromOthers(t *testing.T) {
	t.Parallel()
	b := newSlotBench(t, 4, 1)
	for _, name := range []string{"a", "b", "c", "d"} {
		b.want(claimFor(name, "one", name), name == "a")
	}
	b.slots.settle(requestFor("c")) // It was suspended, for example.
	b.end("a")
	b.wantWoken("b")
	b.slots.keep(requestFor("b")) // The cluster has not answered yet.
	b.slots.settle(requestFor("b"))
	b.want(claimFor("e", "one", "e"), false)
	b.slots.settle(requestFor("b")) // It is as it is wanted by now.
	b.wantWoken("d")
	b.want(claimFor("d", "one", "d"), true)
	// What it is needed for has changed.
	ending := claimFor("e", "two", "e")
	ending.ending = true
	b.want(ending, true)
	b.want(claimFor("f", "one", "f"), false)
	b.end("d")
	b.wantWoken("f")
	b.want(claimFor("f", "three", "f"), true)
	b.end("e")
	b.end("f")
	b.wantEmpty()
}

// TestSlotsServeEverybody runs many releases of HelmOps and Clusters of different sizes through the slots, in whatever order.
func TestSlotsServeEverybody(t *testing.T) {
	t.Parallel()
	b := newSlotBench(t, 10, 2)
	open := map[string]slotClaim{}
	var running []string
	for i := range 500 {
		claim := claimFor(strconv.Itoa(i), fmt.Sprintf("c%d", i*i%17), fmt.Sprintf("h%d", min(i%5, i%7)))
		open[claim.release.Name] = claim
		if b.pass(claim) {
			running = append(running, claim.release.Name)
		}
	}
	for len(open) > 0 {
		if len(running) == 0 {
			t.Fatalf("%d releases wait for nobody", len(open))
		}
		b.end(running[0])
		delete(open, running[0])
		running = running[1:]
		for _, name := range b.queue.woken {
			b.want(open[name], true)
			running = append(running, name)
		}
		b.queue.woken = nil
		if b.slots.total > b.slots.all {
			t.Fatalf("%d actions at once", b.slots.total)
		}
	}
	b.wantEmpty()
}
