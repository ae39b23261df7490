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

// TestManifests checks what an action holds for its manifests in each step.
func TestManifests(t *testing.T) {
	t.Parallel()
	b := NewBudget(1 << 30)
	l := b.Lease(Owner{"a", "a/1"})
	large, weight := withValues(80_000), yamlweight.Weight{Bytes: 2 * mib, Values: 100_000}
	cost := weight.ParseCost()
	steps := []struct {
		name  string
		do    func() error
		least int64
		most  int64
	}{
		{"a small manifest", func() error { return l.Expect(small, small) }, 0, 0},
		{"a large manifest", func() error { return l.Expect(large) }, 80_000 * 300, 80_000 * 450},
		{"expected again", func() error { return l.Expect(large) }, 80_000 * 300, 80_000 * 450},
		{"built", func() error { l.Built(large); return nil }, 80_000 * 100, 80_000 * 200},
		{"a chart", func() error { return l.Render(weight) }, 80_000*100 + cost, 80_000*200 + cost},
		{"settled", func() error { l.Settle(); return nil }, 80_000*100 + cost/4,
			80_000*200 + cost/2},
		{"parsed again", l.RenderAgain, 80_000*100 + cost, 80_000*200 + cost},
		{"a new chart", func() error { return l.Render(yamlweight.Weight{}) }, 80_000 * 100, 80_000 * 200},
		{"for a moment", func() error {
			end := l.Temporary()
			err := l.Expect(large)
			l.Built(large)
			end()
			return err
		}, 80_000 * 100, 80_000 * 200},
	}
	for _, step := range steps {
		err := step.do()
		if held := b.Used(); err != nil || held < step.least || held > step.most {
			t.Errorf("%s: %d bytes are held, want %d to %d: %v", step.name, held, step.least, step.most, err)
		}
	}
	if !l.HasRendered("") || l.HasRendered("a") {
		t.Error("the memory of a chart is for texts up to its size")
	}
	l.Release()
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
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
		if err := l.Expect(text); !errors.Is(err, helmerr.ErrTimeout) || l.beginsAgain() == 0 {
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
		l.Built(text)
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
