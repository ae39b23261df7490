// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"sync"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// An object is contested after contestCorrections corrections within contestWindow.
	contestWindow      = 10 * time.Minute
	contestCorrections = 3
	// minHold and maxHold are the shortest and the longest time for which a contested object is not corrected.
	minHold = time.Minute
	maxHold = 30 * time.Minute
	// quiet is the time without a correction after which the earlier corrections of an object are forgotten. It is longer
	// than maxHold.
	quiet = time.Hour
	// maxHistory is the maximum number of objects in a History.
	maxHistory = 1000
)

// History stores the corrections of one release. It limits the corrections of an object that another controller changes
// back each time. After the third correction of an object within 10 minutes, the object is not corrected for 1 minute.
// This time doubles with each correction, up to 30 minutes. After an hour without a correction, the count starts again
// at 0. The zero value is empty. A History is safe for concurrent use. It holds at most 1,000 objects: the most
// recently corrected ones.
type History struct {
	mu      sync.Mutex
	objects map[inventory.Ref]*corrections
}

// corrections are the corrections of one object.
type corrections struct {
	// recent are the times of the last correction and of earlier corrections within contestWindow, at most
	// contestCorrections.
	recent []time.Time
	// hold is how long the object is not corrected after the last correction; 0 if the object is not contested.
	hold time.Duration
}

func (p *corrections) last() time.Time {
	return p.recent[len(p.recent)-1]
}

// Corrected adds a correction of an object, or an attempt to correct it.
func (h *History) Corrected(ref inventory.Ref, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.objects[ref]
	if p == nil || now.Sub(p.last()) >= quiet {
		h.makeRoom(ref, now)
		h.objects[ref] = &corrections{recent: []time.Time{now}}
		return
	}
	p.correct(now)
}

func (p *corrections) correct(now time.Time) {
	kept := p.recent[:0]
	for _, at := range p.recent {
		if now.Sub(at) < contestWindow {
			kept = append(kept, at)
		}
	}
	p.recent = append(kept, now)
	switch {
	case p.hold > 0:
		p.hold = min(2*p.hold, maxHold)
	case len(p.recent) >= contestCorrections:
		p.hold = minHold
	}
	if p.hold > 0 {
		// The hold replaces the earlier times.
		p.recent = append(p.recent[:0], now)
	}
}

// makeRoom drops expired entries. If this is not enough, it drops the object with the oldest correction.
func (h *History) makeRoom(ref inventory.Ref, now time.Time) {
	if h.objects == nil {
		h.objects = map[inventory.Ref]*corrections{}
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
