// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// blockedRunner blocks until it is closed.
type blockedRunner chan struct{}

// Run implements sandbox.Runner.
func (b blockedRunner) Run(context.Context, sandbox.Request) ([]byte, error) {
	<-b
	return nil, errors.New("closed")
}

// TestSlowKustomizationsLeaveSlotsForOtherTenants checks that slow artifacts of one tenant leave a slot for each other
// tenant, also for a chart that the slow tenant has in its queue. The slow tenant then uses the parse of the other.
func TestSlowKustomizationsLeaveSlotsForOtherTenants(t *testing.T) {
	t.Parallel()
	data := demo(t)
	synctest.Test(t, func(t *testing.T) {
		runner := make(blockedRunner)
		l := NewLoader(Limits{}, runner)
		waiting, stop := context.WithCancel(t.Context())
		var reads atomic.Int64
		load := func(tenant string, done *bool) {
			src := source("d", data, &reads)
			src.Tenant = tenant
			if _, err := l.Chart(t.Context(), src); err != nil {
				t.Error(err)
			}
			*done = true
		}
		for i := range 20 {
			slow := flux(t, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n",
				"a.yaml": configMap(fmt.Sprint("a", i))})
			slow.Tenant, slow.Digest = "slow", fmt.Sprint(i)
			go func() {
				if _, err := l.Chart(waiting, slow); err == nil {
					t.Error("it was built")
				}
			}()
		}
		synctest.Wait()
		var slowDone, otherDone bool
		go load("slow", &slowDone)
		synctest.Wait()
		go load("other", &otherDone)
		synctest.Wait()
		if slowDone || !otherDone {
			t.Errorf("the slow tenant has its chart: %t, the other tenant: %t", slowDone, otherDone)
		}
		stop()
		close(runner)
		synctest.Wait()
		if !slowDone || reads.Load() != 1 {
			t.Errorf("the slow tenant has its chart: %t, after %d reads", slowDone, reads.Load())
		}
		if l.slots.pool.Total() != 0 || l.slots.queue.Len() != 0 {
			t.Errorf("%d slots are taken, %d callers wait", l.slots.pool.Total(), l.slots.queue.Len())
		}
	})
}

func smallKustomization(t *testing.T) Source {
	t.Helper()
	return flux(t, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("a")})
}

// TestKustomizationDoesNotKeepMemoryFromRenderers checks that a parse gives its memory back if it gets no child: the
// renderings in the children may wait for this memory.
func TestKustomizationDoesNotKeepMemoryFromRenderers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const total = 64 << 20
		owner := bytebudget.Owner{Tenant: "a"}
		budget := bytebudget.New(total)
		runner := sandbox.NewPool(sandbox.Options{Children: 1})
		l := NewBoundedLoader(Limits{}, runner, budget)
		start, isParsing := time.Now(), make(chan struct{})
		rendered := make(chan error)
		go func() {
			// The rendering has the only child of the tenant, and waits for memory.
			_, err := runner.Run(t.Context(), sandbox.Request{Tenant: "a", Begin: func() error {
				<-isParsing
				waiting, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				lease, err := budget.Acquire(waiting, owner, 1<<20)
				if err != nil {
					return err
				}
				lease.Release()
				return errRendered
			}})
			rendered <- err
		}()
		synctest.Wait()
		parsed := make(chan error)
		go func() {
			src := smallKustomization(t)
			src.Layers[0].Size, src.Owner, src.Tenant = total/4, owner, "a"
			_, err := l.Chart(t.Context(), src)
			parsed <- err
		}()
		synctest.Wait()
		if held := budget.InUse(); held != budget.Most(owner) {
			t.Fatalf("the parse holds %d bytes", held)
		}
		close(isParsing)
		if err := <-parsed; !errors.Is(err, sandbox.ErrNoChild) {
			t.Errorf("the parse: %v", err)
		}
		if err := <-rendered; !errors.Is(err, errRendered) {
			t.Errorf("the rendering: %v", err)
		}
		if waited := time.Since(start); waited > time.Minute || budget.InUse() != 0 {
			t.Errorf("waited %s, %d bytes are taken", waited, budget.InUse())
		}
	})
}

var errRendered = errors.New("rendered")
