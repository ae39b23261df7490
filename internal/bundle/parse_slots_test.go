// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
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

// TestSlowKustomizationsLeaveSlotsForOtherTenants checks that slow artifacts of one tenant leave a
// slot for each other tenant.
func TestSlowKustomizationsLeaveSlotsForOtherTenants(t *testing.T) {
	t.Parallel()
	data := demo(t)
	synctest.Test(t, func(t *testing.T) {
		runner := make(blockedRunner)
		l := NewLoader(Limits{}, runner)
		waiting, stop := context.WithCancel(t.Context())
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
		done := false
		go func() {
			other := source("d", data, nil)
			other.Tenant = "other"
			if _, err := l.Chart(t.Context(), other); err != nil {
				t.Error(err)
			}
			done = true
		}()
		synctest.Wait()
		if !done {
			t.Error("the other tenant waits")
		}
		stop()
		close(runner)
		synctest.Wait()
		if l.slots.pool.Total() != 0 || l.slots.queue.Len() != 0 {
			t.Errorf("%d slots are taken, %d callers wait", l.slots.pool.Total(), l.slots.queue.Len())
		}
	})
}
