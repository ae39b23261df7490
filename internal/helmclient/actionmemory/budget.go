// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

const (
	// Default is the default size of a Budget, in bytes.
	Default = 512 << 20
	// clusterParts and tenantParts define the shares: one cluster gets 1/clusterParts of a Budget, and one tenant
	// 1/tenantParts.
	clusterParts, tenantParts = 4, 2
)

// Owner is who uses memory. An empty field has no share, so it has no limit.
type Owner struct {
	// Tenant is the namespace of the HelmOp.
	Tenant string
	// Cluster is the key of the cluster.
	Cluster string
}

// Budget is the memory that all actions share. It is safe for concurrent use.
type Budget struct {
	total int64

	mu   sync.Mutex
	used int64
	// tenants and clusters are the used bytes by name.
	tenants, clusters map[string]int64
	// large is the Lease that exceeds the shares of its owner; nil if there is none.
	large *Lease
	// waiters are the leases that wait, in the order of their arrival.
	waiters []*waiter
}

// waiter is a Lease that waits until it can have a number of bytes.
type waiter struct {
	lease *Lease
	bytes int64
	// granted is closed when the lease has the bytes.
	granted chan struct{}
}

// NewBudget returns a Budget of a size in bytes, with all memory free.
func NewBudget(total int64) *Budget {
	return &Budget{total: total, tenants: map[string]int64{}, clusters: map[string]int64{}}
}

// Total returns the size of the Budget in bytes.
func (b *Budget) Total() int64 { return b.total }

// Used returns the bytes that all leases hold.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Waiting returns the number of leases that wait.
func (b *Budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters)
}

// Lease returns an empty Lease of an owner. A nil Budget returns a nil Lease, which has no bound.
func (b *Budget) Lease(owner Owner) *Lease {
	if b == nil {
		return nil
	}
	return &Lease{budget: b, owner: owner}
}

// share returns the number of bytes that an owner can hold without exceeding a share.
func (b *Budget) share(owner Owner) int64 {
	switch {
	case owner.Cluster != "":
		return b.total / clusterParts
	case owner.Tenant != "":
		return b.total / tenantParts
	default:
		return b.total
	}
}

// isWithin reports whether an owner is within its shares after it took more bytes.
func (b *Budget) isWithin(owner Owner, more int64) bool {
	return (owner.Tenant == "" || b.tenants[owner.Tenant]+more <= b.total/tenantParts) &&
		(owner.Cluster == "" || b.clusters[owner.Cluster]+more <= b.total/clusterParts)
}

// grow changes the bytes of a Lease. It returns an error if they are not free.
func (b *Budget) grow(l *Lease, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resize(l, bytes) {
		return nil
	}
	return b.busy(l, bytes)
}

// resize changes the bytes of a Lease. It returns false if they are not free. The caller holds the mutex.
func (b *Budget) resize(l *Lease, bytes int64) bool {
	more := bytes - l.held
	if more > 0 {
		if b.lack(l, bytes) != "" {
			return false
		}
		if bytes > b.share(l.owner) {
			b.large = l
		}
	}
	l.held = bytes
	b.used += more
	add(b.tenants, l.owner.Tenant, more)
	add(b.clusters, l.owner.Cluster, more)
	if more < 0 {
		b.wake()
	}
	return true
}

// lack says why a Lease cannot grow to a number of bytes at this time; empty if it can. The caller holds the mutex.
func (b *Budget) lack(l *Lease, bytes int64) string {
	more, isLarge := bytes-l.held, bytes > b.share(l.owner)
	switch {
	case b.used+more > b.total:
		return fmt.Sprintf("other large releases use %d of %d MiB", (b.used-l.held)>>20, b.total>>20)
	case isLarge && b.large != nil && b.large != l:
		return "another release needs more than its share, and only one may at a time"
	case isLarge || b.large == l || b.isWithin(l.owner, more):
		return ""
	case l.owner.Cluster != "" && b.clusters[l.owner.Cluster]+more > b.total/clusterParts:
		return fmt.Sprintf("other large releases of the Cluster use %d of its %d MiB",
			(b.clusters[l.owner.Cluster]-l.held)>>20, b.total/clusterParts>>20)
	default:
		return fmt.Sprintf("other large releases of the namespace use %d of its %d MiB",
			(b.tenants[l.owner.Tenant]-l.held)>>20, b.total/tenantParts>>20)
	}
}

// busy returns the error for a Lease that cannot grow to a number of bytes. The caller holds the mutex.
func (b *Budget) busy(l *Lease, bytes int64) error {
	return helmerr.New(helmerr.ErrBusy, "no memory is free for the release: it needs about %d MiB, and %s; it is tried "+
		"again soon; if this lasts, raise the memory limit of the manager", bytes>>20,
		cmp.Or(b.lack(l, bytes), "other large releases used it"))
}

// add changes the bytes of a name. It forgets names without bytes.
func add(used map[string]int64, name string, more int64) {
	if name == "" {
		return
	}
	if used[name] += more; used[name] == 0 {
		delete(used, name)
	}
}

// wake ends the exception of a lease that is within its shares again, and gives bytes to the leases that wait. A lease
// whose bytes are not free does not stop those behind it: one large release may wait for the hooks of another, and
// small releases must not.
func (b *Budget) wake() {
	if l := b.large; l != nil && l.held <= b.share(l.owner) && (l.held == 0 || b.isWithin(l.owner, 0)) {
		b.large = nil
	}
	b.waiters = slices.DeleteFunc(b.waiters, func(w *waiter) bool {
		isGranted := b.resize(w.lease, w.bytes)
		if isGranted {
			close(w.granted)
		}
		return isGranted
	})
}

// await waits until a Lease has a number of bytes.
func (b *Budget) await(ctx context.Context, l *Lease, bytes int64) error {
	b.mu.Lock()
	if b.resize(l, bytes) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{lease: l, bytes: bytes, granted: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiters, w)
	if at < 0 {
		return nil // It was granted at the same time.
	}
	b.waiters = slices.Delete(b.waiters, at, at+1)
	return b.ended(ctx, l, bytes)
}

// ended returns the error for a wait whose context has ended. The caller holds the mutex.
func (b *Budget) ended(ctx context.Context, l *Lease, bytes int64) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("the action did not begin: %w", cause)
	}
	return b.busy(l, bytes)
}

// late is ended for a Lease that got its bytes when the time was over.
func (b *Budget) late(ctx context.Context, l *Lease, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended(ctx, l, bytes)
}

// tooLarge returns the error for an action that needs more than the whole Budget.
func (b *Budget) tooLarge(bytes int64) error {
	return helmerr.New(helmerr.ErrTooLarge, "the release needs about %d MiB of memory during an action, and the manager "+
		"has %d MiB for actions: raise the memory limit of the manager, remove files from the chart, or split the chart",
		bytes>>20, b.total>>20)
}
