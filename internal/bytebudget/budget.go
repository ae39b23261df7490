// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytebudget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Free is the size, in bytes, up to which something needs no share of a Budget.
const Free = 64 << 10

const (
	// hostShare and tenantShare are the parts of a Budget that one host and one tenant may hold: a quarter and a half.
	hostShare, tenantShare = 4, 2
)

var (
	// ErrExhausted means that a Budget has nothing left for now: try again later.
	ErrExhausted = errors.New("the memory budget is used up")
	// ErrTooLarge means that one thing takes more than the share of its owner. It does not help to try again.
	ErrTooLarge = errors.New("larger than the share of one host")
)

// Owner says for whom something is under way. An empty field is bounded by the total only.
type Owner struct {
	// Tenant is for example the namespace of a Cluster.
	Tenant string
	// Host is a Cluster, or the host of a registry.
	Host string
}

// Budget bounds the bytes of everything that is under way. A nil Budget bounds nothing.
type Budget struct {
	total int64
	all   *semaphore.Weighted
	inUse atomic.Int64
	// waiting is how many callers of Acquire wait.
	waiting atomic.Int64

	mu     sync.Mutex
	shares map[share]*owned
}

// share names what an owner holds: of the kind of the share, so that a tenant and a host of one name are two.
type share struct {
	part int64
	name string
}

// owned is the share of one owner that holds something, or waits.
type owned struct {
	*semaphore.Weighted
	users int
}

// New returns a Budget of so many bytes, at least one for each share.
func New(total int64) *Budget {
	total = max(total, hostShare)
	return &Budget{total: total, all: semaphore.NewWeighted(total), shares: map[share]*owned{}}
}

// Share is what one host may hold, in bytes. It is 0 for a nil Budget.
func (b *Budget) Share() int64 {
	if b == nil {
		return 0
	}
	return b.total / hostShare
}

// Total is how large the Budget is, in bytes.
func (b *Budget) Total() int64 { return b.total }

// InUse is what the leases hold, in bytes.
func (b *Budget) InUse() int64 { return b.inUse.Load() }

// Waiting is the number of callers that wait in Acquire.
func (b *Budget) Waiting() int64 { return b.waiting.Load() }

// Acquire waits until an owner may have n bytes, and at most the share of a host, under way. The error is an
// [ErrExhausted] with the cause of the end of the context.
func (b *Budget) Acquire(ctx context.Context, owner Owner, n int64) (*Lease, error) {
	l := &Lease{budget: b}
	if b == nil || n <= 0 {
		return l, nil
	}
	n = min(n, b.Share())
	l.sources = b.sources(owner)
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	for i, source := range l.sources {
		if err := source.Acquire(ctx, n); err != nil {
			for _, taken := range l.sources[:i] {
				taken.Release(n)
			}
			b.forget(l.sources)
			return nil, fmt.Errorf("%w: no memory of %d MiB was free within the deadline: %w", ErrExhausted, b.total>>20,
				context.Cause(ctx))
		}
	}
	l.held = n
	b.inUse.Add(n)
	return l, nil
}

// source is what a lease takes bytes from.
type source struct {
	*semaphore.Weighted
	// share is nil for the whole.
	share *share
}

// sources are what a lease of an owner takes from, in this order: its own shares first, so that a caller that waits for
// them holds nothing that other owners need.
func (b *Budget) sources(owner Owner) []source {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sources []source
	for _, s := range []share{{hostShare, owner.Host}, {tenantShare, owner.Tenant}} {
		if s.name == "" {
			continue
		}
		of := b.shares[s]
		if of == nil {
			of = &owned{Weighted: semaphore.NewWeighted(b.total / s.part)}
			b.shares[s] = of
		}
		of.users++
		sources = append(sources, source{of.Weighted, &s})
	}
	return append(sources, source{b.all, nil})
}

// forget drops the shares of owners that hold nothing and wait for nothing.
func (b *Budget) forget(sources []source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range sources {
		if s.share == nil {
			continue
		}
		if of := b.shares[*s.share]; of.users > 1 {
			of.users--
		} else {
			delete(b.shares, *s.share)
		}
	}
}

// Lease is a part of a Budget. Its zero value holds nothing of none.
type Lease struct {
	budget  *Budget
	sources []source
	held    int64
	// isReleased is set by a timer, or by the end of the answer, whichever comes first.
	isReleased atomic.Bool
}

// Grow makes the lease hold at least n bytes in all. It never waits. The error is [ErrTooLarge] if the owner may never
// have as much, and [ErrExhausted] if others hold what is missing.
func (l *Lease) Grow(n int64) error {
	more := n - l.held
	switch {
	case l.budget == nil || more <= 0:
		return nil
	case n > l.budget.Share():
		return ErrTooLarge
	}
	for i, source := range l.sources {
		if !source.TryAcquire(more) {
			for _, taken := range l.sources[:i] {
				taken.Release(more)
			}
			return ErrExhausted
		}
	}
	l.held = n
	l.budget.inUse.Add(more)
	return nil
}

// Held is what the lease holds, in bytes.
func (l *Lease) Held() int64 { return l.held }

// Release gives back what the lease holds. A second call does nothing, also at the same time.
func (l *Lease) Release() {
	if l == nil || l.budget == nil || !l.isReleased.CompareAndSwap(false, true) {
		return
	}
	for _, source := range l.sources {
		source.Release(l.held)
	}
	l.budget.inUse.Add(-l.held)
	l.budget.forget(l.sources)
}

// ReleaseAfter gives back what the lease holds after a while. Until then, only Release may be called.
func (l *Lease) ReleaseAfter(d time.Duration) {
	if l == nil || l.budget == nil || l.isReleased.Load() {
		return
	}
	time.AfterFunc(d, l.Release)
}
