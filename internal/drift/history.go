// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"sync"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// A fight is at least fightCorrections corrections of an object within fightWindow.
	fightWindow      = 10 * time.Minute
	fightCorrections = 3
	// minHold and maxHold bound how long a fought-over object is left alone.
	minHold = time.Minute
	maxHold = 30 * time.Minute
	// quiet is how long an object must need no correction until its past is forgotten. It is longer than maxHold.
	quiet = time.Hour
	// maxHistory bounds the objects that a History remembers.
	maxHistory = 1000
)

// History remembers the corrections of one release, so that a fight with another controller does not become a loop.
// From the third correction of an object within 10 minutes on, the object is not corrected for 1 minute, after the next
// correction for 2, and so on up to 30. An hour without a correction ends that. The zero value is empty; it is safe for
// concurrent use. It holds at most 1,000 objects, those that were corrected last.
type History struct {
	mu      sync.Mutex
	objects map[inventory.Ref]*past
}

// past are the corrections of one object.
type past struct {
	// recent are the times of corrections within the window before the last one, the last one included. It is no longer
	// than fightCorrections.
	recent []time.Time
	// hold is how long the object is not corrected after the last correction; 0 without a fight.
	hold time.Duration
}

func (p *past) last() time.Time {
	return p.recent[len(p.recent)-1]
}

// Corrected remembers that an object was corrected, or that a correction of it was tried.
func (h *History) Corrected(ref inventory.Ref, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.objects[ref]
	if p == nil || now.Sub(p.last()) >= quiet {
		h.makeRoom(ref, now)
		h.objects[ref] = &past{recent: []time.Time{now}}
		return
	}
	p.correct(now)
}

func (p *past) correct(now time.Time) {
	kept := p.recent[:0]
	for _, at := range p.recent {
		if now.Sub(at) < fightWindow {
			kept = append(kept, at)
		}
	}
	p.recent = append(kept, now)
	switch {
	case p.hold > 0:
		p.hold = min(2*p.hold, maxHold)
	case len(p.recent) >= fightCorrections:
		p.hold = minHold
	}
	if p.hold > 0 {
		// The hold replaces the earlier times.
		p.recent = append(p.recent[:0], now)
	}
}

// makeRoom drops expired entries and, if that does not suffice, the object that was corrected longest ago.
func (h *History) makeRoom(ref inventory.Ref, now time.Time) {
	if h.objects == nil {
		h.objects = map[inventory.Ref]*past{}
	}
	if _, found := h.objects[ref]; found || len(h.objects) < maxHistory {
		return
	}
	var oldest inventory.Ref
	var oldestAt time.Time
	for other, p := range h.objects {
		if now.Sub(p.last()) >= quiet {
			delete(h.objects, other)
		} else if oldestAt.IsZero() || p.last().Before(oldestAt) {
			oldest, oldestAt = other, p.last()
		}
	}
	if len(h.objects) >= maxHistory {
		delete(h.objects, oldest)
	}
}

// HeldUntil reports whether an object must not be corrected now, and until when.
func (h *History) HeldUntil(ref inventory.Ref, now time.Time) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.objects[ref]
	if p == nil || p.hold == 0 {
		return time.Time{}, false
	}
	until := p.last().Add(p.hold)
	return until, now.Before(until)
}
