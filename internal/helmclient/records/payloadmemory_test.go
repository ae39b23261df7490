// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// TestHoldCountsTheLargestPayload checks that an action holds memory for its largest payload, and releases all of it.
func TestHoldCountsTheLargestPayload(t *testing.T) {
	t.Parallel()
	const most = MaxPayloadMemory / payloadCopies
	for name, tc := range map[string]struct {
		taken int64
		sizes []int
		want  int64
		grown bool
	}{
		"small ones do not count": {0, []int{smallPayload, 10}, 0, false},
		"the first":               {0, []int{1 << 20}, payloadCopies << 20, false},
		"a larger one":            {0, []int{1 << 20, 10, 3 << 20, 2 << 20}, 3 * payloadCopies << 20, false},
		"a larger one, for which no room": {MaxPayloadMemory - payloadCopies<<20, []int{1 << 20, 3 << 20, 4 << 20},
			payloadCopies << 20, true},
		"larger than all": {0, []int{2 * most}, MaxPayloadMemory, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := NewPayloadMemory(MaxPayloadMemory)
			take(t, memory, "", tc.taken)
			s := &Store{ctx: t.Context(), split: newSplitRecords(memory)}
			for _, size := range tc.sizes {
				if err := s.Hold(size); err != nil {
					t.Fatal(err)
				}
			}
			held := s.split.held
			if held.lease.Held() != tc.want || held.grown != tc.grown || memory.growth.TryAcquire(1) == tc.grown {
				t.Errorf("%d bytes are held, want %d, and it has grown: %t", held.lease.Held(), tc.want, held.grown)
			}
			if !tc.grown {
				memory.growth.Release(1)
			}
			s.Release()
			if memory.Room.InUse() != tc.taken || !memory.growth.TryAcquire(1) {
				t.Error("not all was given back")
			}
		})
	}
}

// take takes memory of a tenant until the end of the test.
func take(t *testing.T, memory *PayloadMemory, tenant string, size int64) *bytebudget.Lease {
	t.Helper()
	lease, err := memory.Room.Acquire(t.Context(), bytebudget.Owner{Tenant: tenant}, size)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// TestHoldLeavesMemoryToOtherTenants has a tenant with many large records in long actions. Another tenant still gets
// memory, also for a record that is larger than its share.
func TestHoldLeavesMemoryToOtherTenants(t *testing.T) {
	t.Parallel()
	const share = MaxPayloadMemory / 2 / payloadCopies
	memory := NewPayloadMemory(MaxPayloadMemory)
	of := func(tenant string) *Store {
		// No test waits for this long: an action that must wait fails.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return &Store{ctx: ctx, tenant: tenant, split: newSplitRecords(memory)}
	}
	var err error
	greedy := 0
	for ; err == nil; greedy++ {
		s := of("greedy")
		// The action reads or writes its record, and then waits for a hook.
		err = s.Hold(2 * share)
		s.rest()
	}
	if !errors.Is(err, helmerr.ErrTimeout) || greedy < 2 {
		t.Errorf("action %d of the greedy tenant: %v", greedy, err)
	}
	for _, size := range []int{share, 2 * share} {
		other := of("other")
		if err := other.Hold(size); err != nil {
			t.Errorf("%d bytes of another tenant: %v", size, err)
		}
		other.Release()
	}
}

// TestRestKeepsOnePart checks that an action that waits holds only memory for the records that it keeps, and gets the
// rest again for its next record.
func TestRestKeepsOnePart(t *testing.T) {
	t.Parallel()
	memory := NewPayloadMemory(MaxPayloadMemory)
	s := &Store{ctx: t.Context(), tenant: "a", split: newSplitRecords(memory)}
	s.rest()
	const all = 6 * payloadCopies << 20
	for range 2 {
		if err := s.Hold(6 << 20); err != nil || memory.Room.InUse() != all {
			t.Errorf("%d bytes are held: %v", memory.Room.InUse(), err)
		}
		for range 2 {
			if s.rest(); memory.Room.InUse() != all/keptShare {
				t.Errorf("%d bytes are held at rest", memory.Room.InUse())
			}
		}
	}
	full := take(t, memory, "", MaxPayloadMemory-all/keptShare)
	if err := s.Hold(6 << 20); err != nil || !s.split.held.grown {
		t.Errorf("in full memory, the action does not grow: %v", err)
	}
	s.rest()
	if !memory.growth.TryAcquire(1) {
		t.Error("an action at rest keeps the growth")
	}
	full.Release()
	if s.Release(); memory.Room.InUse() != 0 {
		t.Errorf("%d bytes are lost", memory.Room.InUse())
	}
}

// TestGrowthUsesTheOtherBudget checks that the bytes of the growth are a part of the budget for responses, that at
// least half of that budget stays for responses, and that a payload for which this is not enough is refused.
func TestGrowthUsesTheOtherBudget(t *testing.T) {
	t.Parallel()
	const most = 20 * payloadCopies << 20
	responses := bytebudget.New(2 * most)
	memory := NewBoundedPayloadMemory(6<<20, responses)
	s := &Store{ctx: t.Context(), tenant: "a", split: newSplitRecords(memory)}
	for _, size := range []int{1 << 20, 10 << 20, 5 << 20, 20 << 20} {
		if err := s.Hold(size); err != nil {
			t.Fatal(err)
		}
		if held := memory.Room.InUse() + responses.InUse(); held < int64(size)*payloadCopies {
			t.Errorf("%d bytes are held for a payload of %d", held, size)
		}
	}
	if responses.InUse() > most {
		t.Errorf("the growth holds %d bytes, which is more than half", responses.InUse())
	}
	if err := s.Hold(20<<20 + 1); !errors.Is(err, helmerr.ErrTooLarge) || !strings.Contains(err.Error(), "has 120 MiB") {
		t.Errorf("a payload that never fits: %v", err)
	}
	if s.rest(); responses.InUse() != 0 || memory.Room.InUse() == 0 {
		t.Errorf("at rest, the growth holds %d bytes, and the action %d", responses.InUse(), memory.Room.InUse())
	}
	ctx, cancel := context.WithCancel(t.Context())
	full, err := responses.Acquire(ctx, bytebudget.Owner{}, responses.Total())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	late := &Store{ctx: ctx, tenant: "b", split: newSplitRecords(memory)}
	if err := late.Hold(10 << 20); !errors.Is(err, helmerr.ErrTimeout) {
		t.Errorf("while responses use their whole budget: %v", err)
	}
	full.Release()
	late.Release()
	s.Release()
	if !memory.growth.TryAcquire(1) || responses.InUse()+memory.Room.InUse() != 0 {
		t.Error("not all was given back")
	}
}

// TestHoldGrowsOneAtATime has several actions that need more memory than is free. It checks that they continue one at a
// time, and that all of them continue in the end.
func TestHoldGrowsOneAtATime(t *testing.T) {
	t.Parallel()
	const actions = 8
	memory := NewPayloadMemory(MaxPayloadMemory)
	var all []*Store
	for range actions {
		s := &Store{ctx: t.Context(), split: newSplitRecords(memory)}
		if err := s.Hold(MaxPayloadMemory / payloadCopies / actions); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	var growing atomic.Int32
	var group errgroup.Group
	for _, s := range all {
		group.Go(func() error {
			if err := s.Hold(2 * MaxPayloadMemory / payloadCopies / actions); err != nil {
				return err
			}
			if s.split.held.grown && growing.Add(1) > 1 {
				t.Error("two grow at a time")
			}
			for range 100 {
				runtime.Gosched()
			}
			if s.split.held.grown {
				growing.Add(-1)
			}
			s.Release()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first, second := all[0], &Store{ctx: ended, split: newSplitRecords(memory)}
	if memory.Room.InUse() != 0 || first.Hold(0) != nil || !memory.growth.TryAcquire(1) {
		t.Fatal("not all was given back")
	}
	second.split.held.lease = take(t, memory, "", 1)
	take(t, memory, "", MaxPayloadMemory-1)
	if err := second.Hold(1 << 20); !errors.Is(err, helmerr.ErrTimeout) {
		t.Errorf("an action whose time is over: %v", err)
	}
}

// TestPackWaitsForMemory checks that a release is packed only after memory for its chart and its texts is reserved.
func TestPackWaitsForMemory(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, rls := range map[string]*release.Release{
		"manifest": {Manifest: strings.Repeat("x", 1<<20)},
		"hook":     {Hooks: []*release.Hook{nil, {Manifest: strings.Repeat("x", 1<<20)}}},
	} {
		memory := NewPayloadMemory(MaxPayloadMemory)
		s := &Store{ctx: ended, codec: NewCodec(), split: newSplitRecords(memory)}
		full := take(t, memory, "", MaxPayloadMemory)
		if _, err := s.Pack(rls); !errors.Is(err, helmerr.ErrTimeout) {
			t.Errorf("%s: %v", name, err)
		}
		full.Release()
		s.ctx = t.Context()
		if _, err := s.Pack(rls); err != nil || memory.Room.InUse() == 0 {
			t.Errorf("%s: no bytes are held: %v", name, err)
		}
	}
}
