// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytebudget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

func acquire(t *testing.T, b *bytebudget.Budget, owner bytebudget.Owner, n int64) *bytebudget.Lease {
	t.Helper()
	lease, err := b.Acquire(t.Context(), owner, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lease.Release)
	return lease
}

// isFull reports whether an owner has to wait for n bytes. Its time is fake: the deadline ends only a call that waits,
// also on a busy machine.
func isFull(t *testing.T, b *bytebudget.Budget, owner bytebudget.Owner, n int64) (full bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		lease, err := b.Acquire(ctx, owner, n)
		if err != nil && !errors.Is(err, bytebudget.ErrExhausted) {
			t.Fatal(err)
		}
		lease.Release()
		full = err != nil
	})
	return full
}

func TestHostsAndTenantsHaveShares(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := bytebudget.New(400)
	one := bytebudget.Owner{Tenant: "a", Host: "a/1"}
	acquire(t, b, one, 1000)
	g.Expect(b.InUse()).To(Equal(int64(100)), "more than the share of a host is that share")
	g.Expect(isFull(t, b, one, 1)).To(BeTrue(), "of the host")
	acquire(t, b, bytebudget.Owner{Tenant: "a", Host: "a/2"}, 100)
	g.Expect(isFull(t, b, bytebudget.Owner{Tenant: "a", Host: "a/3"}, 1)).To(BeTrue(), "of the tenant")
	other := bytebudget.Owner{Tenant: "b", Host: "b/1"}
	g.Expect(isFull(t, b, other, 100)).To(BeFalse(), "of another tenant")
	// A host with the name of a tenant does not use the share of the tenant.
	g.Expect(isFull(t, b, bytebudget.Owner{Host: "a"}, 100)).To(BeFalse())
}

// TestTenantsShareHost checks that one tenant leaves bytes of a host to other tenants, and that all tenants together
// leave bytes to other hosts.
func TestTenantsShareHost(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := bytebudget.New(400)
	at := func(tenant, host string) bytebudget.Owner { return bytebudget.Owner{Tenant: tenant, Host: host} }
	acquire(t, b, at("a", "registry"), 100)
	g.Expect(isFull(t, b, at("a", "registry"), 1)).To(BeTrue(), "of the tenant at this host")
	acquire(t, b, at("b", "registry"), 100)
	g.Expect(isFull(t, b, at("c", "registry"), 1)).To(BeTrue(), "of the host")
	g.Expect(isFull(t, b, at("c", "other"), 100)).To(BeFalse(), "of another host")
}

func TestGrowNeverWaits(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := bytebudget.New(400)
	one := acquire(t, b, bytebudget.Owner{Host: "1"}, 50)
	g.Expect(one.Grow(100)).To(Succeed())
	g.Expect(one.Grow(60)).To(Succeed(), "it has that already")
	g.Expect(one.Held()).To(Equal(int64(100)))
	g.Expect(one.Grow(101)).To(MatchError(bytebudget.ErrTooLarge))
	for _, host := range []string{"2", "3"} {
		acquire(t, b, bytebudget.Owner{Host: host}, 100)
	}
	last := acquire(t, b, bytebudget.Owner{Host: "4"}, 60)
	late := acquire(t, b, bytebudget.Owner{Host: "5"}, 30)
	g.Expect(last.Grow(100)).To(MatchError(bytebudget.ErrExhausted))
	late.Release()
	g.Expect(last.Grow(100)).To(Succeed())
	g.Expect(b.InUse()).To(Equal(int64(400)))
}

// TestLeaseWithoutHost checks that a lease of a tenant without a host may have the share of the tenant, and that an
// empty lease counts after it grew.
func TestLeaseWithoutHost(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := bytebudget.New(400)
	tenant := bytebudget.Owner{Tenant: "a"}
	lease := acquire(t, b, tenant, 0)
	g.Expect(lease.Grow(201)).To(MatchError(bytebudget.ErrTooLarge))
	g.Expect(lease.Grow(200)).To(Succeed())
	g.Expect(isFull(t, b, tenant, 1)).To(BeTrue(), "of the tenant")
	lease.Shrink(300)
	g.Expect(lease.Held()).To(Equal(int64(200)))
	lease.Shrink(50)
	g.Expect(isFull(t, b, tenant, 151)).To(BeTrue(), "of the tenant")
	g.Expect(isFull(t, b, tenant, 150)).To(BeFalse())
	lease.Release()
	g.Expect(acquire(t, b, tenant, 1000).Held()).To(Equal(int64(200)))
	g.Expect(acquire(t, b, bytebudget.Owner{}, 200).Held()).To(Equal(int64(200)))
	g.Expect(b.InUse()).To(Equal(int64(400)))
}

func TestWaitingForOwnShareDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := bytebudget.New(400)
	greedy := bytebudget.Owner{Host: "greedy"}
	acquire(t, b, greedy, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		lease, err := b.Acquire(ctx, greedy, 100)
		lease.Release()
		ended <- err
	}()
	g.Eventually(b.Waiting).Should(Equal(int64(1)))
	g.Expect(isFull(t, b, bytebudget.Owner{Host: "other"}, 100)).To(BeFalse())
	cancel()
	g.Eventually(ended).Should(Receive(MatchError(context.Canceled)))
}

func TestNilBudget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var none *bytebudget.Budget
	lease := acquire(t, none, bytebudget.Owner{Host: "1"}, 1<<50)
	g.Expect(lease.Grow(1 << 60)).To(Succeed())
	g.Expect(none.Share()).To(BeZero())
	lease.ReleaseAfter(time.Nanosecond)
}

// TestConcurrentLeasesReturnAllBytes runs many leases at the same time. Together they never exceed the total, each of
// them completes, and in the end no bytes are held.
func TestConcurrentLeasesReturnAllBytes(t *testing.T) {
	t.Parallel()
	const total = 1000
	b := bytebudget.New(total)
	var held, most atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		owner := bytebudget.Owner{Tenant: string(rune('a' + i%3)), Host: string(rune('a' + i%7))}
		random := rand.New(rand.NewPCG(uint64(i), 0))
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Microsecond)
				lease, err := b.Acquire(ctx, owner, 1+random.Int64N(400))
				cancel()
				if err != nil {
					continue
				}
				for range random.IntN(3) {
					_ = lease.Grow(random.Int64N(300))
				}
				mine := lease.Held()
				most.Store(max(most.Load(), held.Add(mine)))
				held.Add(-mine)
				if random.IntN(2) == 0 {
					lease.ReleaseAfter(time.Microsecond)
				} else {
					lease.Release()
				}
				lease.Release()
			}
		})
	}
	all.Wait()
	g := NewWithT(t)
	g.Expect(most.Load()).To(And(BeNumerically(">", 0), BeNumerically("<=", total)))
	g.Eventually(b.InUse).Should(BeZero())
	g.Expect(isFull(t, b, bytebudget.Owner{Tenant: "a", Host: "a"}, total/4)).To(BeFalse())
}
