// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	small = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	mib   = 1 << 20
)

// withValues returns a manifest with a number of values, in one document.
func withValues(values int) string { return small + "data:\n" + strings.Repeat("- {a: 0}\n", values/4) }

// TestTexts checks what an action holds for its texts in each step.
func TestTexts(t *testing.T) {
	t.Parallel()
	b := NewBudget(1 << 30)
	l := b.Lease(Owner{"a", "a/1"})
	large, chart := withValues(80_000), yamlweight.Weight{Bytes: 2 * mib, Values: 100_000}
	weight, err := l.Weigh(large)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(text string, isRendered bool) func() error {
		return func() error {
			end, err := l.Parse(text, isRendered)
			if err == nil {
				end()
			}
			return err
		}
	}
	parsing := func() int64 { return max(extraOf(weight), extraOf(chart)) }
	for _, step := range []struct {
		name string
		do   func() error
		want int64
	}{
		{"a small manifest", func() error { return l.Expect(small, small) }, 0},
		{"a large manifest", func() error { return l.Expect(large) }, costOf(weight)},
		{"expected again", func() error { return l.Expect(large) }, costOf(weight)},
		{"parsed", parse(large, false), keptOf(weight)},
		{"parsed again", parse(large, false), keptOf(weight)},
		{"a chart", func() error { return l.Render(chart) }, keptOf(weight) + costOf(chart)},
		{"both", func() error { return l.Expect(large) }, keptOf(weight) + keptOf(chart) + parsing()},
		{"a part of the chart", parse(small, true), keptOf(weight) + keptOf(chart) + parsing()},
		{"parsed for the last time", parse(large, false), keptOf(weight) + costOf(chart)},
		{"settled", func() error { l.Settle(); return nil }, keptOf(weight) + keptOf(chart)},
		{"a large part of the settled chart", parse(withValues(40_000), true), keptOf(weight) + keptOf(chart)},
		{"rendered again", l.RenderAgain, keptOf(weight) + costOf(chart)},
		{"no chart", func() error { return l.Render(yamlweight.Weight{}) }, keptOf(weight)},
		{"for a moment", func() error {
			defer l.Temporary()()
			return l.Expect(withValues(60_000))
		}, keptOf(weight)},
	} {
		if err := step.do(); err != nil || b.Used() != step.want {
			t.Errorf("%s: %d bytes are held, want %d: %v", step.name, b.Used(), step.want, err)
		}
	}
	if l.Release(); b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

// TestAwaitedMemoryStays checks that an action keeps what it waited for until it applies objects.
func TestAwaitedMemoryStays(t *testing.T) {
	t.Parallel()
	b := NewBudget(64 * mib)
	l := hold(t, b, Owner{}, 32*mib)
	for _, step := range []struct {
		do   func()
		want int64
	}{{l.Parsed, 32 * mib}, {func() { l.RestRecords(0) }, 32 * mib}, {l.Settle, 0}} {
		if step.do(); b.Used() != step.want {
			t.Errorf("%d bytes are held, want %d", b.Used(), step.want)
		}
	}
}

// TestManifestsAreWeighedFirst checks that memory is reserved before a text is parsed, also only to weigh it.
func TestManifestsAreWeighedFirst(t *testing.T) {
	t.Parallel()
	b := NewBudget(64 * mib)
	full := hold(t, b, Owner{}, 64*mib)
	aliases := "a: &a {b: c}\nl:\n" + strings.Repeat("- {x: 0}\n", 20_000) + "d: *a\n"
	for name, text := range map[string]string{"values": withValues(60_000), "aliases": aliases} {
		l := b.Lease(Owner{})
		if err := l.Expect(text); !errors.Is(err, helmerr.ErrBusy) || l.wanted == 0 {
			t.Errorf("%s: %v", name, err)
		}
		l.Release()
	}
	if err := b.Lease(Owner{}).Expect(small); err != nil {
		t.Errorf("a small manifest waits: %v", err)
	}
	full.Release()
	l := b.Lease(Owner{})
	for name, text := range map[string]string{"values": withValues(60_000), "aliases": aliases} {
		if err := l.Expect(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.Release()
	for _, l := range []*Lease{nil, b.Lease(Owner{})} {
		if err := l.Expect("a: &a [*a]\n"); !errors.Is(err, helmerr.ErrInvalidChart) {
			t.Errorf("a text that must not be parsed: %v", err)
		}
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

// TestStringsAreNoValues checks that the characters in texts, for example in dashboards, do not count as values.
func TestStringsAreNoValues(t *testing.T) {
	t.Parallel()
	dashboard := small + "data:\n  dashboard.json: |\n    " + strings.Repeat(`{"a": [1, 2, 3]},`, 10_000) + "\n"
	weight, err := (*Lease)(nil).Weigh(dashboard)
	if err != nil || weight.Values > 20 {
		t.Errorf("%d values: %v", weight.Values, err)
	}
}
