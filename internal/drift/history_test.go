// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestHistory(t *testing.T) {
	t.Parallel()
	ref := inventory.Ref{Kind: "ConfigMap", Name: "a"}
	for _, test := range []struct {
		name string
		// corrections are the minutes of corrections.
		corrections []float64
		// want is the minute, after the last correction, until which the object is held; 0 if it is not held.
		want float64
	}{
		{"none", nil, 0},
		{"two", []float64{0, 1}, 0},
		{"third in ten minutes", []float64{0, 1, 9}, 10},
		{"third after ten minutes", []float64{0, 1, 10}, 0},
		{"third within ten minutes of the second", []float64{0, 5, 11, 14}, 15},
		{"fourth", []float64{0, 1, 2, 4}, 6},
		{"to the end", []float64{0, 1, 2, 4, 8, 16, 32, 64}, 94},
		{"and not beyond", []float64{0, 1, 2, 4, 8, 16, 32, 64, 95, 126}, 156},
		{"an hour of quiet", []float64{0, 1, 2, 4, 64}, 0},
		{"an hour of quiet, and again", []float64{0, 1, 2, 62, 63, 64}, 65},
	} {
		var h History
		var last time.Time
		for _, minute := range test.corrections {
			last = start.Add(time.Duration(minute * float64(time.Minute)))
			h.Corrected(ref, last)
		}
		until, held := h.HeldUntil(ref, last)
		want := start.Add(time.Duration(test.want * float64(time.Minute)))
		if held != (test.want > 0) || held && !until.Equal(want) {
			t.Errorf("%s: held until %s, %t", test.name, until.Sub(start), held)
		}
		if !held {
			continue
		}
		if _, held := h.HeldUntil(ref, until.Add(-time.Nanosecond)); !held {
			t.Errorf("%s: not held to the end", test.name)
		}
		if _, held := h.HeldUntil(ref, until); held {
			t.Errorf("%s: held after the end", test.name)
		}
		if _, held := h.HeldUntil(inventory.Ref{Kind: "ConfigMap", Name: "b"}, last); held {
			t.Errorf("%s: another object is held", test.name)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var h History
	ref := func(i int) inventory.Ref { return inventory.Ref{Name: fmt.Sprint(i)} }
	for i := range 3 * maxHistory {
		h.Corrected(ref(i), start.Add(time.Duration(i)*time.Millisecond))
	}
	if len(h.objects) != maxHistory {
		t.Errorf("%d objects", len(h.objects))
	}
	if h.objects[ref(3*maxHistory-1)] == nil || h.objects[ref(2*maxHistory-1)] != nil {
		t.Error("forgot others than the oldest")
	}
	h.Corrected(ref(-1), start.Add(2*quiet))
	if len(h.objects) != 1 {
		t.Errorf("%d objects after an hour of quiet", len(h.objects))
	}
}

func TestHistoryConcurrently(t *testing.T) {
	t.Parallel()
	var h History
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			ref := inventory.Ref{Name: fmt.Sprint(i % 2)}
			for range 100 {
				h.Corrected(ref, start)
				h.HeldUntil(ref, start)
			}
		})
	}
	group.Wait()
	if until, held := h.HeldUntil(inventory.Ref{Name: "0"}, start); !held || until.Sub(start) != maxHold {
		t.Errorf("held until %s, %t", until, held)
	}
}
