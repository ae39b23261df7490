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

// Free is the size in bytes up to which content does not count against a Budget.
const Free = 64 << 10

const (
	// ownShare is the divisor of a Budget for one tenant at one host, and wideShare the divisor for one tenant at all
	// hosts, and for one host with all tenants.
	ownShare, wideShare = 4, 2
)

var (
	// ErrExhausted means that the Budget has too few free bytes at the moment: retry later.
	ErrExhausted = errors.New("the memory budget is used up")
	// ErrTooLarge means that a single item needs more than the share of its owner. Retries do not help.
	ErrTooLarge = errors.New("larger than the share of one tenant at one host")
)

// Owner is the tenant and the host whose shares a lease reduces. If a field is empty, its limit does not apply.
type Owner struct {
	// Tenant is for example the namespace of a Cluster.
	Tenant string
	// Host is a Cluster, or the host of a registry.
	Host string
}

// Budget bounds the bytes of all concurrent operations. A nil Budget has no limit.
type Budget struct {
	total int64
	all   *semaphore.Weighted
	inUse atomic.Int64
	// waiting is the number of callers that wait in Acquire.
	waiting atomic.Int64

	mu     sync.Mutex
	shares map[share]*owned
}

// share identifies the share of one tenant at one host, of a tenant at all hosts, or of a host with all tenants.
type share struct {
	part         int64
	tenant, host string
}

// owned is the share of an owner that holds or waits for bytes.
type owned struct {
	*semaphore.Weighted
	users int
}

// New returns a Budget of total bytes, at least one byte for each share.
func New(total int64) *Budget {
	total = max(total, ownShare)
	return &Budget{total: total, all: semaphore.NewWeighted(total), shares: map[share]*owned{}}
}

// Share returns how many bytes one tenant may hold at one host. It is 0 for a nil Budget.
func (b *Budget) Share() int64 {
	if b == nil {
		return 0
	}
	return b.total / ownShare
}

// Total returns the size of the Budget in bytes.
func (b *Budget) Total() int64 { return b.total }

// InUse returns the bytes that all leases hold.
func (b *Budget) InUse() int64 { return b.inUse.Load() }

// Waiting returns the number of callers that wait in Acquire.
func (b *Budget) Waiting() int64 { return b.waiting.Load() }

// Most returns how many bytes a lease of an owner may hold: the share of the tenant at the host, without a host the
// share of the tenant, and without both the whole Budget.
func (b *Budget) Most(owner Owner) int64 {
	switch {
	case owner.Host != "":
		return b.total / ownShare
	case owner.Tenant != "":
		return b.total / wideShare
	default:
		return b.total
	}
}

// Acquire waits until n bytes are free for an owner, and returns a Lease for them. It reduces n to [Budget.Most] of the
// owner. If the context ends first, the error is an [ErrExhausted] with the cause of the end.
func (b *Budget) Acquire(ctx context.Context, owner Owner, n int64) (*Lease, error) {
	l := &Lease{budget: b, owner: owner}
	if b == nil || n <= 0 {
		return l, nil
	}
	n = min(n, b.Most(owner))
	l.sources = b.sources(owner)
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	for i, source := range l.sources {
		if err := source.Acquire(ctx, n); err != nil {
			for _, taken := range l.sources[:i] {
				taken.Release(n)
			}
			b.dropUnused(l.sources)
			return nil, fmt.Errorf("%w: no part of %d MiB became free within the deadline: %w", ErrExhausted, b.total>>20,
				context.Cause(ctx))
		}
	}
	l.held = n
	b.inUse.Add(n)
	return l, nil
}

// source is a semaphore from which a lease takes bytes.
type source struct {
	*semaphore.Weighted
	// share is nil for the whole Budget.
	share *share
}

// sources returns the semaphores for a lease of an owner, in the order of acquisition. The owner's own shares are
// first. So a caller that waits for these shares holds nothing that other owners need. A tenant has less than the share
// of a host: other tenants can still use the host.
func (b *Budget) sources(owner Owner) []source {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sources []source
	var shares []share
	if owner.Host != "" {
		shares = append(shares, share{ownShare, owner.Tenant, owner.Host})
	}
	if owner.Tenant != "" {
		shares = append(shares, share{wideShare, owner.Tenant, ""})
	}
	if owner.Host != "" {
		shares = append(shares, share{wideShare, "", owner.Host})
	}
	for _, s := range shares {
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

// dropUnused deletes the shares of owners that neither hold nor wait for bytes.
func (b *Budget) dropUnused(sources []source) {
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

// Lease is a held part of a Budget. Its zero value holds nothing.
type Lease struct {
	budget *Budget
	owner  Owner
	// sources is empty until the lease holds bytes.
	sources []source
	held    int64
	// isReleased is set by the timer of ReleaseAfter or by Release, whichever is first.
	isReleased atomic.Bool
}

// Grow increases the lease to at least n bytes in total. It never waits. The error is [ErrTooLarge]
// if n exceeds the owner's share, and [ErrExhausted] if other leases hold the bytes.
func (l *Lease) Grow(n int64) error {
	more := n - l.held
	switch {
	case l.budget == nil || more <= 0:
		return nil
	case n > l.budget.Most(l.owner):
		return ErrTooLarge
	case len(l.sources) == 0:
		l.sources = l.budget.sources(l.owner)
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

// Shrink reduces the lease to at most n bytes in total.
func (l *Lease) Shrink(n int64) {
	less := l.held - max(n, 0)
	if l.budget == nil || less <= 0 {
		return
	}
	for _, source := range l.sources {
		source.Release(less)
	}
	l.held -= less
	l.budget.inUse.Add(-less)
}

// Held returns the bytes that the lease holds; 0 for a nil Lease.
func (l *Lease) Held() int64 {
	if l == nil {
		return 0
	}
	return l.held
}

// Release returns the bytes to the Budget. A second call does nothing, even a concurrent one.
func (l *Lease) Release() {
	if l == nil || l.budget == nil || !l.isReleased.CompareAndSwap(false, true) {
		return
	}
	for _, source := range l.sources {
		source.Release(l.held)
	}
	l.budget.inUse.Add(-l.held)
	l.budget.dropUnused(l.sources)
}

// ReleaseSoon releases the lease after the estimated time to decode an answer of its size. Until then, only Release may
// be called.
func (l *Lease) ReleaseSoon() {
	l.ReleaseAfter(time.Duration(l.Held()) * time.Second / decodedPerSecond)
}

// ReleaseAfter releases the lease after a duration. Until then, only Release may be called.
func (l *Lease) ReleaseAfter(d time.Duration) {
	if l == nil || l.budget == nil || l.isReleased.Load() {
		return
	}
	time.AfterFunc(d, l.Release)
}
