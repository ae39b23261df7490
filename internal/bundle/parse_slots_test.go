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
