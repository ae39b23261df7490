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

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/release"

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
		"larger than all": {0, []int{2 * most}, MaxPayloadMemory, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := NewPayloadMemory()
			if !memory.Room.TryAcquire(tc.taken) {
				t.Fatal("there is not as much")
			}
			s := &Store{ctx: t.Context(), split: newSplitRecords(memory)}
			for _, size := range tc.sizes {
				if err := s.Hold(size); err != nil {
					t.Fatal(err)
				}
			}
			if s.split.held != tc.want || s.split.grown != tc.grown || memory.growth.TryAcquire(1) == tc.grown {
				t.Errorf("%d bytes are held, want %d, and it has grown: %t", s.split.held, tc.want, s.split.grown)
			}
			if !tc.grown {
				memory.growth.Release(1)
			}
			s.Release()
			if !memory.Room.TryAcquire(MaxPayloadMemory-tc.taken) || !memory.growth.TryAcquire(1) {
				t.Error("not all was given back")
			}
		})
	}
}

// TestHoldGrowsOneAtATime has several actions that need more memory than is free. It checks that they continue one at a
// time, and that all of them continue in the end.
func TestHoldGrowsOneAtATime(t *testing.T) {
	t.Parallel()
	const actions = 8
	memory := NewPayloadMemory()
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
			if s.split.grown && growing.Add(1) > 1 {
				t.Error("two grow at a time")
			}
			for range 100 {
				runtime.Gosched()
			}
			if s.split.grown {
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
	second.split.held = 1
	if !memory.Room.TryAcquire(MaxPayloadMemory) || first.Hold(0) != nil || !memory.growth.TryAcquire(1) {
		t.Fatal("not all was given back")
	}
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
		memory := NewPayloadMemory()
		s := &Store{ctx: ended, codec: NewCodec(), split: newSplitRecords(memory)}
		if !memory.Room.TryAcquire(MaxPayloadMemory) {
			t.Fatal("there is not as much")
		}
		if _, err := s.Pack(rls); !errors.Is(err, helmerr.ErrTimeout) {
			t.Errorf("%s: %v", name, err)
		}
		memory.Room.Release(MaxPayloadMemory)
		s.ctx = t.Context()
		if _, err := s.Pack(rls); err != nil || s.split.held == 0 {
			t.Errorf("%s: %d bytes are held: %v", name, s.split.held, err)
		}
	}
}
