// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// bench has releases that take and free slots.
type bench struct {
	*testing.T
	slots *Slots
	woken []string
	held  map[string]func()

	inUse, waiting int
}

func newBench(t *testing.T, workers, perCluster int) *bench {
	t.Helper()
	b := &bench{T: t, held: map[string]func(){}}
	b.slots = New(Options{
		Workers: workers, PerCluster: perCluster,
		Wake:   func(release types.NamespacedName) { b.woken = append(b.woken, release.Name) },
		Report: func(inUse, waiting int) { b.inUse, b.waiting = inUse, waiting },
	})
	return b
}

// claimFor returns the claim of a release in the namespace "fleet".
func claimFor(release, cluster, helmOp string) Claim {
	return claimOf("fleet", release, cluster, helmOp)
}

func claimOf(namespace, release, cluster, helmOp string) Claim {
	return Claim{Release: types.NamespacedName{Namespace: namespace, Name: release}, Cluster: cluster, HelmOp: helmOp}
}

// pass makes a pass over a release that needs a slot. It reports whether the release got a slot. The release keeps the
// slot until end is called.
func (b *bench) pass(claim Claim) bool {
	b.Helper()
	done, ok := b.slots.Acquire(claim)
	b.slots.Settle(claim.Release)
	if ok {
		b.held[claim.Release.Name] = done
	}
	return ok
}

func (b *bench) want(claim Claim, want bool) {
	b.Helper()
	if got := b.pass(claim); got != want {
		b.Fatalf("%s of %s in %s has a slot: %t, want %t", claim.Release, claim.HelmOp, claim.Cluster, got, want)
	}
}

func (b *bench) end(release string) {
	b.Helper()
	b.held[release]()
	delete(b.held, release)
}

// wantWoken checks which releases were woken after the last call.
func (b *bench) wantWoken(releases ...string) {
	b.Helper()
	if !slices.Equal(b.woken, releases) {
		b.Fatalf("woken: %v, want %v", b.woken, releases)
	}
	b.woken = nil
}

// wantEmpty checks that no state of finished releases is left.
func (b *bench) wantEmpty() {
	b.Helper()
	s := b.slots
	left := len(s.clusters) + len(s.places) + len(s.helmOps) + len(s.waiters) + len(s.groups) + len(s.inClusters)
	if s.namespaces.Total() != 0 || s.uninstallations.Total() != 0 || left != 0 || len(b.woken) != 0 || b.inUse != 0 ||
		b.waiting != 0 {
		b.Errorf("something is left: %+v, woken: %v", s, b.woken)
	}
}

// fill takes as many slots as one namespace can get. It uses a number of HelmOps, each with four claims in each
// Cluster.
func (b *bench) fill(namespace string, helmOps, clusters int, ending bool) int {
	b.Helper()
	taken := 0
	for h := range helmOps {
		for i := range 4 * clusters {
			claim := claimOf(namespace, fmt.Sprintf("%s-%d-%d", namespace, h, i), fmt.Sprintf("%s-%d", namespace, i/4),
				strconv.Itoa(h))
			claim.Uninstalling = ending
			if b.pass(claim) {
				taken++
			}
		}
	}
	return taken
}

// TestOneNamespaceLeavesSlotsToAnother checks that a namespace whose actions never end cannot stop another namespace.
// This must be true for any number of workers, HelmOps and Clusters.
func TestOneNamespaceLeavesSlotsToAnother(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ workers, helmOps, clusters, taken int }{
		{workers: 20, helmOps: 2, clusters: 5, taken: 14},
		{workers: 20, helmOps: 2, clusters: 3, taken: 12},
		{workers: 20, helmOps: 50, clusters: 50, taken: 15},
		{workers: 24, helmOps: 1, clusters: 50, taken: 13},
		{workers: 24, helmOps: 50, clusters: 50, taken: 18},
		{workers: 8, helmOps: 2, clusters: 3, taken: 5},
		{workers: 8, helmOps: 50, clusters: 50, taken: 6},
		{workers: 40, helmOps: 2, clusters: 10, taken: 28},
		{workers: 40, helmOps: 50, clusters: 50, taken: 30},
		{workers: 4, helmOps: 50, clusters: 50, taken: 2},
	} {
		t.Run(fmt.Sprintf("%d workers, %d HelmOps, %d Clusters", tc.workers, tc.helmOps, tc.clusters), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.workers, 4)
			if taken := b.fill("tenant-a", tc.helmOps, tc.clusters, false); taken != tc.taken {
				t.Errorf("tenant-a holds %d slots, want %d", taken, tc.taken)
			}
			first := claimOf("tenant-b", "first", "b", "web")
			first.First = true
			b.want(first, true)
			b.end("first")
			b.woken = nil
			b.want(claimOf("tenant-b", "upgrade", "b", "web"), true)
			b.end("upgrade")
			b.woken = nil
			b.want(claimOf("tenant-b", "uninstall", "b", "web"), true)
		})
	}
}

// TestUninstallationsThatWaitAreShared has a namespace whose uninstallations never end. It must leave some of their
// slots to another namespace.
func TestUninstallationsThatWaitAreShared(t *testing.T) {
	t.Parallel()
	for workers, want := range map[int]int{24: 6, 20: 5, 8: 2, 4: 1} {
		b := newBench(t, workers, 4)
		if taken := b.fill("tenant-a", 9, 9, true); taken != want {
			t.Errorf("%d workers: %d uninstallations of one namespace wait, want %d", workers, taken, want)
		}
		other := claimOf("tenant-b", "other", "b", "web")
		other.Uninstalling = true
		b.want(other, true)
	}
}

// TestSlotsAlternateBetweenNamespaces checks that the next slot goes to the namespace with the fewest slots, and in
// this namespace to the HelmOp with the fewest.
func TestSlotsAlternateBetweenNamespaces(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8, 1)
	if taken := b.fill("a", 3, 40, false); taken != 6 {
		t.Fatalf("one namespace holds %d slots", taken)
	}
	b.want(claimOf("b", "b0", "b0", "x"), true)
	b.want(claimOf("b", "b1", "b1", "x"), false)
	b.want(claimOf("b", "b2", "b2", "y"), false)
	b.want(claimOf("c", "c0", "c0", "x"), false) // One worker never gets a slot.
	b.end("a-0-0")
	b.wantWoken("c0")
	b.end("a-0-4")
	b.wantWoken() // One slot is left for namespaces without a slot.
	b.end("a-0-8")
	b.wantWoken("b2") // The HelmOp of b2 has no slot.
}

func TestSlotsOfClustersAndHelmOps(t *testing.T) {
	t.Parallel()
	b := newBench(t, 16, 0)
	for i := range DefaultPerCluster {
		b.want(claimFor(strconv.Itoa(i), "slow", "a"), true)
	}
	b.want(claimFor("b0", "slow", "b"), false) // The Cluster has reached its limit.
	for i := DefaultPerCluster; i < 8; i++ {
		b.want(claimFor(strconv.Itoa(i), "fine", "a"), true)
	}
	b.want(claimFor("8", "other", "a"), true)
	b.want(claimFor("9", "other", "a"), false) // The HelmOp has nine of the namespace's twelve slots: its limit.
	b.want(claimFor("b1", "other", "b"), true)
	b.want(claimFor("b2", "other", "b"), true)
	b.want(claimFor("c0", "other", "c"), true)
	b.want(claimFor("d0", "more", "d"), false) // The namespace has reached its limit.
	b.end("0")
	b.wantWoken("d0") // The HelmOp of d0 has no slot yet.
	b.want(claimFor("d0", "more", "d"), true)
	b.end("b1")
	b.wantWoken() // One HelmOp gets three quarters of the slots that others leave: one of two.
	b.end("1")
	b.wantWoken("b0")
	b.want(claimFor("b0", "slow", "b"), true)
	for _, name := range slices.Collect(maps.Keys(b.held)) {
		b.end(name)
	}
	for _, name := range b.woken {
		b.slots.Settle(claimFor(name, "", "").Release)
	}
	b.woken = nil
	b.wantEmpty()
	one := newBench(t, 1, 1)
	one.want(claimFor("a", "c", "h"), true)
	one.want(claimFor("b", "c", "h"), false)
}

// TestNamespacesAlternateInACluster checks that a namespace with many slots in other Clusters gets a slot in a Cluster
// whose slots another namespace uses all the time.
func TestNamespacesAlternateInACluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, 32, 2)
	for i := range 8 {
		b.want(claimOf("platform", fmt.Sprintf("p%d", i), strconv.Itoa(i), "cni"), true)
	}
	for i := range 2 {
		b.want(claimOf("tenant", fmt.Sprintf("t%d", i), "shared", fmt.Sprintf("hook-%d", i)), true)
	}
	for i := range 3 {
		b.want(claimOf("tenant", fmt.Sprintf("w%d", i), "shared", fmt.Sprintf("wait-%d", i)), false)
	}
	b.want(claimOf("platform", "late", "shared", "cni"), false)
	b.end("t0")
	b.wantWoken("late") // The tenant has fewer slots in all, but more in this Cluster.
	b.end("t1")
	b.wantWoken("w0")
}

// TestRequestedSlotIsKept checks that a release keeps a requested slot for its read and its action, and that other
// releases get a requested slot that the release does not use.
func TestRequestedSlotIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, 1)
	first, second := claimFor("first", "c", "h"), claimFor("second", "c", "h")
	request := func(claim Claim, isSlow bool, want bool) {
		t.Helper()
		if got := b.slots.Request(claim); got != want {
			t.Fatalf("%s has a slot: %t, want %t", claim.Release, got, want)
		}
		if isSlow {
			b.slots.Keep(claim.Release)
		}
		b.slots.Settle(claim.Release)
	}
	request(first, true, true)
	request(second, false, false)
	request(first, true, true) // An event starts another pass during the read.
	b.wantWoken()
	b.want(first, true)
	b.end("first")
	b.wantWoken("second")
	request(first, false, false)
	request(second, false, true) // The read shows that there is nothing to do.
	b.wantWoken("first")
	first.Uninstalling = true
	request(first, true, true)
	b.want(first, true)
	b.end("first")
	b.wantWoken()
	b.wantEmpty()
}

// TestSomeWorkersGetNoSlot checks that actions never take all workers, even if there are few. Hooks can delay an action
// for minutes.
func TestSomeWorkersGetNoSlot(t *testing.T) {
	t.Parallel()
	for workers := 2; workers <= 40; workers++ {
		b := newBench(t, workers, 1)
		taken := 0
		for i := range workers {
			if name := fmt.Sprint(i); b.pass(claimOf(name, name, name, name)) {
				taken++
			}
		}
		if taken >= workers || taken < workers-workers/8-1 {
			t.Errorf("%d of %d workers act", taken, workers)
		}
	}
}

// TestGrantedSlotIsKept checks that a release keeps a granted slot until it uses the slot or does not need it any more.
func TestGrantedSlotIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8, 1)
	waiter := claimFor("b", "c", "h")
	b.want(claimFor("a", "c", "h"), true)
	b.want(waiter, false)
	if b.slots.IsGranted(waiter.Release) || !b.slots.IsWaiting(waiter.Release) {
		t.Error("a release in the queue has a slot")
	}
	b.end("a")
	b.wantWoken("b")
	// The read of the release is slow, so the release is enqueued again.
	b.slots.Keep(waiter.Release)
	b.slots.Settle(waiter.Release)
	if !b.slots.IsGranted(waiter.Release) || b.slots.IsWaiting(waiter.Release) {
		t.Error("the slot is lost")
	}
	b.slots.Settle(waiter.Release)
	if b.slots.IsGranted(waiter.Release) {
		t.Error("a release that needs no slot keeps it")
	}
	b.wantEmpty()
}

// TestSlotIsReleasedOnce checks that a second call of done does not free the slot of another release.
func TestSlotIsReleasedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8, 1)
	done, _ := b.slots.Acquire(claimFor("a", "c", "h"))
	done()
	b.want(claimFor("b", "c", "h"), true)
	done()
	b.want(claimFor("c", "c", "h"), false)
}

// TestHelmOpsShareSlots checks that late HelmOps with few releases do not wait until a HelmOp with many releases is
// done. Releases of one Cluster must get slots in the order of their requests.
func TestHelmOpsShareSlots(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8, 1)
	for i := range 100 {
		b.want(claimFor(fmt.Sprintf("big-%d", i), fmt.Sprintf("c%d", i), "big"), i < 4)
	}
	b.want(claimFor("late-0", "c0", "late"), false)
	b.want(claimFor("later-0", "c0", "later"), false)
	b.end("big-1")
	b.wantWoken("big-4")
	b.end("big-0")
	b.wantWoken("late-0")
	b.want(claimFor("late-0", "c0", "late"), true)
	b.end("late-0")
	b.wantWoken("later-0")
}

// TestReleasesThatAreNotInstalledGetSlotsFirst checks that a new Cluster does not wait for the upgrade of a chart in a
// thousand others. HelmOps must still share the slots.
func TestReleasesThatAreNotInstalledGetSlotsFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8, 1)
	for i := range 100 {
		b.want(claimFor(fmt.Sprintf("old-%d", i), fmt.Sprintf("c%d", i), "cni"), i < 4)
	}
	b.want(claimFor("other", "c50", "other"), true)
	b.want(claimFor("other-late", "c51", "other"), false)
	first := claimFor("new", "new", "cni")
	first.First = true
	b.want(first, false)
	b.end("old-0")
	b.wantWoken("other-late") // The HelmOp of this release has fewer slots.
	b.end("old-1")
	b.wantWoken("new")
	b.want(first, true)
	b.end("new")
	b.wantWoken("old-4")
}

// TestSlotIsNotKeptFromOthers checks two cases. A release that does not need its slot any more must not keep the slot.
// A release whose pass could not request the slot must not lose it.
func TestSlotIsNotKeptFromOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, 6, 1)
	release := func(name string) types.NamespacedName { return claimFor(name, "", "").Release }
	for _, name := range []string{"a", "b", "c", "d"} {
		b.want(claimFor(name, "one", name), name == "a")
	}
	b.slots.Settle(release("c")) // The release was paused, for example.
	b.end("a")
	b.wantWoken("b")
	b.slots.Keep(release("b")) // The cluster has not responded yet.
	b.slots.Settle(release("b"))
	b.want(claimFor("e", "one", "e"), false)
	b.slots.Settle(release("b")) // The release is up to date now.
	b.wantWoken("d")
	b.want(claimFor("d", "one", "d"), true)
	// The release claims another slot than before.
	ending := claimFor("e", "two", "e")
	ending.Uninstalling = true
	b.want(ending, true)
	b.want(claimFor("f", "one", "f"), false)
	b.end("d")
	b.wantWoken("f")
	b.want(claimFor("f", "three", "f"), true)
	b.end("e")
	b.end("f")
	b.wantEmpty()
}

// TestWakeIsCalledWithoutALock has a function Wake that calls Slots.
func TestWakeIsCalledWithoutALock(t *testing.T) {
	t.Parallel()
	var s *Slots
	woken := false
	s = New(Options{Workers: 2, Wake: func(release types.NamespacedName) { woken = s.IsGranted(release) }})
	done, ok := s.Acquire(claimOf("a", "a", "a", "a"))
	if _, second := s.Acquire(claimOf("b", "b", "b", "b")); !ok || second {
		t.Fatalf("of one slot, the first release has it: %t, the second: %t", ok, second)
	}
	if done(); !woken {
		t.Error("the release that waits was not woken with its slot")
	}
}
