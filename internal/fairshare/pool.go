// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fairshare

// Share returns how many slots one holder may have. left is the number of slots that the other holders do not have. The
// result is three quarters of left, and at least one.
func Share(left int) int { return max(1, left*3/4) }

// Pool is a number of slots that holders share.
type Pool[H comparable] struct {
	base, size int

	total int
	held  map[H]int
}

// NewPool returns a pool of size free slots. Shares are computed from base, which may be larger than size.
func NewPool[H comparable](base, size int) *Pool[H] {
	return &Pool[H]{base: base, size: size, held: map[H]int{}}
}

// Total returns the number of taken slots.
func (p *Pool[H]) Total() int { return p.total }

// IsFull reports whether all slots are taken.
func (p *Pool[H]) IsFull() bool { return p.total >= p.size }

// Held returns the number of slots of a holder.
func (p *Pool[H]) Held(holder H) int { return p.held[holder] }

// Allowance returns how many slots a holder may have now: its share, but not the last free slot if it already has a
// slot.
func (p *Pool[H]) Allowance(holder H) int {
	others := p.total - p.held[holder]
	return max(1, min(Share(p.base-others), p.size-others-1))
}

// Admits reports whether a holder may have one more slot.
func (p *Pool[H]) Admits(holder H) bool {
	return !p.IsFull() && p.held[holder] < p.Allowance(holder)
}

// Take assigns a slot to a holder, even if Admits returns false.
func (p *Pool[H]) Take(holder H) {
	p.total++
	p.held[holder]++
}

// GiveBack frees a slot of a holder.
func (p *Pool[H]) GiveBack(holder H) {
	p.total--
	if p.held[holder]--; p.held[holder] <= 0 {
		delete(p.held, holder)
	}
}
