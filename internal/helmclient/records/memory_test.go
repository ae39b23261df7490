// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
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

// TestUpdateReservesMemory checks that memory is reserved before a record is packed again, for its texts as JSON.
func TestUpdateReservesMemory(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*release.Release, string){
		"manifest":    func(rls *release.Release, text string) { rls.Manifest = text },
		"hook":        func(rls *release.Release, text string) { rls.Hooks[0].Manifest = text },
		"description": func(rls *release.Release, text string) { rls.Info.Description = text },
		"values":      func(rls *release.Release, text string) { rls.Config = map[string]any{"a": []any{text}} },
		"chart":       func(rls *release.Release, text string) { rls.Chart.Metadata.Description = text },
	} {
		rls := helmtest.FullRelease()
		change(rls, strings.Repeat("<", 2<<20))
		memory := actionmemory.NewBudget(1 << 30)
		full := memory.Lease(actionmemory.Owner{})
		// Without escapes, this would be enough.
		if err := full.Records(memory.Total() - 8<<20); err != nil {
			t.Fatal(err)
		}
		s := NewStore(t.Context(), StoreOptions{Codec: NewCodec()})
		s.Memory = memory.Lease(actionmemory.Owner{})
		if err := s.updateWhole("demo", rls); err == nil {
			t.Errorf("%s: packed without free memory", name)
		}
		full.Release()
		s.Memory = memory.Lease(actionmemory.Owner{})
		if _, err := s.Pack(rls); err != nil || memory.Used() < 2*6*2<<20 {
			t.Errorf("%s: %d bytes are held: %v", name, memory.Used(), err)
		}
	}
}

// TestLargeJSONIsRefusedFirst checks that a record that is too large as JSON is not written as JSON.
func TestLargeJSONIsRefusedFirst(t *testing.T) { //nolint:paralleltest // It measures memory.
	rls := helmtest.FullRelease()
	rls.Manifest = strings.Repeat("<", maxRecordBytes/6+1)
	codec := NewCodec()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := codec.pack(rls)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > maxRecordBytes/4 || !errors.Is(err, helmerr.ErrTooLarge) {
		t.Errorf("it takes %d MiB: %v", taken>>20, err)
	}
}

// TestJSONSize checks that the computed size of a text in JSON is its real size, and that of a record is not larger.
func TestJSONSize(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"plain", "<a>&\"b\"\\", "\b\f\n\r\t\x00\x1f\x7f", "Zoë \u2028\u2029 \ufffd 😀"} {
		data, err := json.Marshal(text)
		if err != nil || escapedSize(text) != len(data)-len(`""`) {
			t.Errorf("%s has %d bytes, not %d: %v", data, len(data)-len(`""`), escapedSize(text), err)
		}
	}
	for name, rls := range sparseReleases() {
		rls.Chart, rls.Labels = nil, map[string]string{"not": strings.Repeat("stored", 1000)}
		data, err := json.Marshal(rls)
		if size := jsonSize(reflect.ValueOf(rls)); err != nil || size > len(data) {
			t.Errorf("%s: %d bytes, not %d: %v", name, len(data), size, err)
		}
	}
}
