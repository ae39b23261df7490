// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// TestHoldCountsTheLargestPayload checks that an action holds memory for its largest payload, keeps a part of it at
// rest, and gets the rest again for its next record.
func TestHoldCountsTheLargestPayload(t *testing.T) {
	t.Parallel()
	memory := actionmemory.NewBudget(1 << 30)
	waits := actionmemory.Waits{Context: t.Context()}
	err := memory.Do(waits, actionmemory.Owner{}, func(lease *actionmemory.Lease) error {
		s := &Store{Memory: lease}
		for _, step := range []struct {
			size       int
			want, rest int64
		}{
			{smallPayload, 0, 0},
			{1 << 20, payloadCopies << 20, 2 << 20},
			{10, 2 << 20, 2 << 20},
			{3 << 20, 3 * payloadCopies << 20, 6 << 20},
			{2 << 20, 2 * payloadCopies << 20, 6 << 20},
		} {
			if err := s.Hold(step.size); err != nil {
				return err
			}
			if held := memory.Used(); held != step.want {
				t.Errorf("%d bytes are held for a payload of %d, want %d", held, step.size, step.want)
			}
			for range 2 {
				if s.rest(); memory.Used() != step.rest {
					t.Errorf("%d bytes are held after a payload of %d, want %d", memory.Used(), step.size, step.rest)
				}
			}
		}
		return nil
	})
	if err != nil || memory.Used() != 0 {
		t.Errorf("%d bytes are left: %v", memory.Used(), err)
	}
}

// TestPackReservesMemory checks that a release is packed only after memory for its chart and its texts is reserved.
func TestPackReservesMemory(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 2<<20)
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for name, rls := range map[string]*release.Release{
		"manifest": {Manifest: text},
		"hook":     {Hooks: []*release.Hook{nil, {Manifest: text}}},
		// The chart compresses to some kilobytes.
		"chart": {Chart: &chart.Chart{Files: []*chart.File{nil, {Name: "a", Data: []byte(text)}}}},
	} {
		for _, size := range []int64{1 << 20, 1 << 30} {
			memory, used := actionmemory.NewBudget(1<<30), int64(0)
			full := memory.Lease(actionmemory.Owner{})
			if err := full.Records(memory.Total() - size); err != nil {
				t.Fatal(err)
			}
			err := memory.Do(actionmemory.Waits{Context: ended}, actionmemory.Owner{}, func(lease *actionmemory.Lease) error {
				s := &Store{codec: NewCodec(), Memory: lease}
				_, err := s.Pack(rls)
				used = memory.Used()
				return err
			})
			if isFree := size == 1<<30; isFree == errors.Is(err, helmerr.ErrBusy) || isFree && (err != nil || used == 0) {
				t.Errorf("%s with %d free bytes: %d are used: %v", name, size, used, err)
			}
		}
	}
}
