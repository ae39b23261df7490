// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// expired returns a context whose time is over.
func expired() context.Context {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	cancel()
	return ctx
}

func hold(t *testing.T, b *Budget, owner Owner, bytes int64) *Lease {
	t.Helper()
	l := b.Lease(owner)
	if err := l.await(t.Context(), bytes); err != nil {
		t.Fatal(err)
	}
	return l
}

// isFree reports whether an action of an owner can have a number of bytes at once.
func isFree(b *Budget, owner Owner, bytes int64) bool {
	l := b.Lease(owner)
	defer l.Release()
	return l.await(expired(), bytes) == nil
}

func TestShares(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	one := hold(t, b, Owner{"a", "a/1"}, 100)
	for name, tc := range map[string]struct {
		owner Owner
		bytes int64
		want  bool
	}{
		"the same cluster":          {Owner{"a", "a/1"}, 1, false},
		"the tenant":                {Owner{"a", "a/2"}, 100, true},
		"another tenant":            {Owner{"b", "b/1"}, 100, true},
		"another tenant there":      {Owner{"b", "a/1"}, 1, false},
		"no owner":                  {Owner{}, 300, true},
		"more than all":             {Owner{}, 301, false},
		"one that needs more":       {Owner{"b", "b/1"}, 300, true},
		"one that needs more there": {Owner{"a", "a/1"}, 300, true},
	} {
		if got := isFree(b, tc.owner, tc.bytes); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	large := hold(t, b, Owner{"b", "b/1"}, 200)
	if isFree(b, Owner{"c", "c/1"}, 101) {
		t.Error("two leases exceed their shares")
	}
	if !isFree(b, Owner{"c", "c/1"}, 100) {
		t.Error("a lease within its share waits for a large one")
	}
	if err := large.Render(yamlweight.Weight{}); err != nil {
		t.Fatal(err)
	}
	large.Settle()
	if b.Used() != 100 || !isFree(b, Owner{"c", "c/1"}, 200) {
		t.Errorf("a settled lease is still large: %d bytes are used", b.Used())
	}
	one.Release()
	one.Release()
	large.Release()
	if b.Used() != 0 || len(b.tenants)+len(b.clusters) != 0 || b.large != nil {
		t.Errorf("not all was given back: %+v", b)
	}
}

// TestLargeReturnsIntoShares checks that a lease that exceeded its shares no longer counts as the large one when it and
// the other leases of its cluster have shrunk, in any order.
func TestLargeReturnsIntoShares(t *testing.T) {
	t.Parallel()
	for _, isOtherFirst := range []bool{true, false} {
		b := NewBudget(400)
		other, large := hold(t, b, Owner{"a", "a/1"}, 50), b.Lease(Owner{"a", "a/1"})
		if err := large.Records(300); err != nil {
			t.Fatal(err)
		}
		steps := []func(){other.Release, func() { large.RestRecords(80) }}
		if !isOtherFirst {
			steps[0], steps[1] = steps[1], steps[0]
		}
		steps[0]()
		if isFree(b, Owner{"b", "b/1"}, 120) {
			t.Error("two leases exceed their shares")
		}
		if steps[1](); !isFree(b, Owner{"b", "b/1"}, 120) {
			t.Error("a lease within its shares still counts as the large one")
		}
	}
}

// TestWaitsOvertake checks that a large lease that waits does not stop smaller ones, and gets its bytes in the end.
func TestWaitsOvertake(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	first := hold(t, b, Owner{"a", "a/1"}, 100)
	large := b.Lease(Owner{"b", "b/1"})
	done := make(chan error, 1)
	go func() { done <- large.await(t.Context(), 350) }()
	for b.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	if !isFree(b, Owner{"c", "c/1"}, 100) {
		t.Error("a small lease waits behind a large one")
	}
	select {
	case err := <-done:
		t.Fatalf("the large one has bytes that are not free: %v", err)
	default:
	}
	first.Release()
	if err := <-done; err != nil || b.Used() != 350 {
		t.Errorf("%d bytes: %v", b.Used(), err)
	}
	if err := b.Lease(Owner{}).await(expired(), 51); !errors.Is(err, helmerr.ErrBusy) || b.Waiting() != 0 {
		t.Errorf("a wait that timed out: %v", err)
	}
	large.Release()
}

// TestDoBeginsAgain checks that an action that needs more than is free gives all back, waits, and begins again with
// all that it needs, and that it does not begin again after it has changed something.
func TestDoBeginsAgain(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	other := hold(t, b, Owner{}, 300)
	var held []int64
	err := b.Do(Waits{Context: t.Context()}, Owner{"a", "a/1"}, func(l *Lease) error {
		held = append(held, l.Held())
		if err := l.Records(60); err != nil {
			return err
		}
		if len(held) == 1 {
			// While the action waits, it holds nothing.
			time.AfterFunc(time.Millisecond, other.Release)
		}
		return l.Records(150)
	})
	if err != nil || len(held) != 2 || held[1] != 150 || b.Used() != 0 {
		t.Errorf("tries with %v: %v", held, err)
	}
	err = b.Do(Waits{Context: t.Context()}, Owner{}, func(l *Lease) error { return l.Records(401) })
	if !errors.Is(err, helmerr.ErrTooLarge) || !strings.Contains(err.Error(), "raise the memory limit") {
		t.Errorf("more than the manager has: %v", err)
	}
	other = hold(t, b, Owner{}, 400)
	tries := 0
	err = b.Do(Waits{Context: expired()}, Owner{}, func(l *Lease) error { tries++; return l.Records(1) })
	if !errors.Is(err, helmerr.ErrBusy) || tries != 1 {
		t.Errorf("%d tries of an action whose time is over: %v", tries, err)
	}
	other.Release()
	tries = 0
	failed := errors.New("failed")
	err = b.Do(Waits{Context: t.Context()}, Owner{}, func(*Lease) error { tries++; return failed })
	if !errors.Is(err, failed) ||
		tries != 1 {
		t.Errorf("%d tries of an action that fails: %v", tries, err)
	}
	if err := (*Budget)(nil).Do(Waits{Context: t.Context()}, Owner{}, func(l *Lease) error {
		if err := l.Commit(); err != nil {
			return err
		}
		l.Settle()
		l.Force()
		l.Parsed()
		l.RestRecords(0)
		l.Temporary()()
		return errors.Join(l.Records(1<<40), l.Render(yamlweight.Weight{Bytes: 1 << 40}), l.RenderAgain(), l.Expect("a: b"))
	}); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

// TestShortageIsKept has actions that ignore a shortage, as Helm does when it reads the history. They change nothing,
// and begin again or fail.
func TestShortageIsKept(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	other := hold(t, b, Owner{}, 300)
	for _, isReading := range []bool{true, false} {
		var committed []error
		tries := 0
		err := b.Do(Waits{Context: t.Context(), Begin: other.Release}, Owner{}, func(l *Lease) error {
			tries++
			if err := l.Records(200); err != nil && l.Records(50) == nil {
				t.Error("a lease grows after a shortage")
			}
			if isReading {
				return nil
			}
			committed = append(committed, l.Commit())
			return nil
		})
		if err != nil || tries != 2 || !isReading && (!errors.Is(committed[0], helmerr.ErrBusy) || committed[1] != nil) {
			t.Errorf("reads only: %t, tries %d, commits %v: %v", isReading, tries, committed, err)
		}
		other = hold(t, b, Owner{}, 300)
	}
	err := b.Do(Waits{Context: t.Context()}, Owner{}, func(l *Lease) error {
		_ = l.Records(401)
		return nil
	})
	if !errors.Is(err, helmerr.ErrTooLarge) {
		t.Errorf("more than the manager has: %v", err)
	}
}

// TestLack checks that an action that waits learns what uses the memory.
func TestLack(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		held map[Owner]int64
		want string
	}{
		"the budget":    {map[Owner]int64{{}: 390}, "it needs about 50 MiB, and other large releases use 390 of 400 MiB;"},
		"the cluster":   {map[Owner]int64{{"b", "a/1"}: 60}, "releases of the Cluster use 60 of its 100 MiB;"},
		"the namespace": {map[Owner]int64{{"a", "a/2"}: 90, {"a", "a/3"}: 90}, "releases of the namespace use 180 of its 200 MiB;"},
	} {
		b := NewBudget(400 * mib)
		for owner, size := range tc.held {
			hold(t, b, owner, size*mib)
		}
		err := b.Lease(Owner{"a", "a/1"}).await(expired(), 50*mib)
		if !errors.Is(err, helmerr.ErrBusy) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := NewBudget(400 * mib)
	hold(t, b, Owner{"b", "b/1"}, 150*mib)
	err := b.Lease(Owner{"a", "a/1"}).await(expired(), 150*mib)
	if !errors.Is(err, helmerr.ErrBusy) || !strings.Contains(err.Error(), "another release needs more than its share") {
		t.Errorf("two large releases: %v", err)
	}
}

// TestDoStops checks that an action does not begin again when its waits end, also if memory is free.
func TestDoStops(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	other := hold(t, b, Owner{}, 300)
	stopped := errors.New("stopped")
	for _, isFree := range []bool{false, true} {
		ctx, stop := context.WithCancelCause(t.Context())
		tries, waits := 0, 0
		err := b.Do(Waits{Context: ctx, Begin: func() {
			waits++
			if isFree {
				other.Release()
			}
			stop(stopped)
		}}, Owner{}, func(l *Lease) error {
			tries++
			return l.Records(200)
		})
		if !errors.Is(err, stopped) || tries != 1 || waits != 1 {
			t.Errorf("memory is free: %t, tries %d, waits %d: %v", isFree, tries, waits, err)
		}
	}
}

// TestForcedWaitsForAll checks that an action that may need more than the whole budget waits until it is the only one.
func TestForcedWaitsForAll(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	other := hold(t, b, Owner{}, 1)
	tries := 0
	err := b.Do(Waits{Context: t.Context(), Begin: other.Release}, Owner{"a", "a/1"}, func(l *Lease) error {
		tries++
		l.Force()
		return l.Records(5000)
	})
	if err != nil || tries != 2 || b.Used() != 0 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

// TestCommittedWaits checks that an action that has changed something waits for memory and keeps what it has, and that
// it continues without memory at the end of the time for waits.
func TestCommittedWaits(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	other := hold(t, b, Owner{}, 300)
	err := b.Do(Waits{Context: t.Context()}, Owner{"a", "a/1"}, func(l *Lease) error {
		if err := l.Records(50); err != nil {
			return err
		}
		if err := l.Commit(); err != nil {
			return err
		}
		time.AfterFunc(time.Millisecond, other.Release)
		return l.Records(200)
	})
	if err != nil || b.Used() != 0 {
		t.Errorf("%d bytes are left: %v", b.Used(), err)
	}
	other = hold(t, b, Owner{}, 300)
	l := b.Lease(Owner{"a", "a/1"})
	if err := l.Commit(); err != nil {
		t.Fatal(err)
	}
	l.late = time.Unix(1, 0)
	for _, bytes := range []int64{200, 5000} {
		if err := l.Records(bytes); err != nil || b.Used() > b.Total() {
			t.Errorf("%d bytes are used: %v", b.Used(), err)
		}
	}
	l.Release()
	if other.Release(); b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

// TestPanicReleases checks that an action that panics gives its memory back. The manager continues after the panic.
func TestPanicReleases(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	func() {
		defer func() { _ = recover() }()
		_ = b.Do(Waits{Context: t.Context()}, Owner{"a", "a/1"}, func(l *Lease) error {
			if err := l.Records(50); err != nil {
				return err
			}
			panic("a bug")
		})
	}()
	if b.Used() != 0 {
		t.Errorf("%d bytes are lost", b.Used())
	}
}

// TestRandomLeases runs many actions at the same time. They never hold more than the budget, all of them end, and all
// memory is given back.
func TestRandomLeases(t *testing.T) {
	t.Parallel()
	b := NewBudget(400)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			owner := Owner{Tenant: string(rune('a' + i%3)), Cluster: string(rune('A' + i%7))}
			sizes := [2]int64{random.Int64N(150), random.Int64N(150)}
			err := b.Do(Waits{Context: t.Context()}, owner, func(l *Lease) error {
				for _, size := range sizes {
					if err := l.Records(size); err != nil {
						return err
					}
					if used := b.Used(); used > b.Total() || l.Held() < size {
						t.Errorf("%d bytes are used, and the lease has %d of %d", used, l.Held(), size)
					}
				}
				if err := l.Commit(); err != nil {
					return err
				}
				l.Settle()
				l.RestRecords(size(sizes))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if b.Used() != 0 || b.large != nil || len(b.tenants)+len(b.clusters) != 0 {
		t.Errorf("not all was given back: %+v", b)
	}
}

func size(sizes [2]int64) int64 { return (sizes[0] + sizes[1]) / 6 }
