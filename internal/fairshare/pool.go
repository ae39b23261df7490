// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fairshare

// Share is how many of a number of places one holder may have when the others leave this many: three quarters, and one
// at least.
func Share(left int) int { return max(1, left*3/4) }

// Pool is a number of places that holders share.
type Pool[H comparable] struct {
	base, size int

	total int
	held  map[H]int
}

// NewPool returns a pool with a number of places, all of them free. Shares are computed from base, which may be larger
// than size.
func NewPool[H comparable](base, size int) *Pool[H] {
	return &Pool[H]{base: base, size: size, held: map[H]int{}}
}

// Total is how many places are taken.
func (p *Pool[H]) Total() int { return p.total }

// Held is how many places a holder has.
func (p *Pool[H]) Held(holder H) int { return p.held[holder] }

// Allowance is how many places a holder may have now: its share, and never the last free one beside others.
func (p *Pool[H]) Allowance(holder H) int {
	others := p.total - p.held[holder]
	return max(1, min(Share(p.base-others), p.size-others-1))
}

// Admits tells whether a holder may have one more place.
func (p *Pool[H]) Admits(holder H) bool {
	return p.total < p.size && p.held[holder] < p.Allowance(holder)
}

// Take gives a place to a holder, whether Admits allows it or not.
func (p *Pool[H]) Take(holder H) {
	p.total++
	p.held[holder]++
}

// GiveBack frees a place of a holder.
func (p *Pool[H]) GiveBack(holder H) {
	p.total--
	if p.held[holder]--; p.held[holder] <= 0 {
		delete(p.held, holder)
	}
}
