// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
)

// parseSlots limits concurrent parses. Tenants have equal shares of the slots, see package fairshare: one tenant's
// kustomizations may take minutes to build. It is safe for concurrent use.
type parseSlots struct {
	mu    sync.Mutex
	pool  *fairshare.Pool[string]
	queue *fairshare.Queue[string, chan struct{}]
}

// newParseSlots returns slots for a number of parses of one tenant. One more slot is for other tenants.
func newParseSlots(parses int) *parseSlots {
	size := parses + 1
	pool := fairshare.NewPool[string](2*size, size)
	return &parseSlots{pool: pool, queue: fairshare.NewQueue[string, chan struct{}](pool)}
}

// acquire waits for a slot for a tenant. The caller must call release afterwards. If the context ends first, acquire
// returns the context's error.
func (t *parseSlots) acquire(ctx context.Context, tenant string) error {
	granted := make(chan struct{})
	t.mu.Lock()
	t.queue.Push(tenant, granted)
	t.grant()
	t.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.queue.Remove(tenant, granted) {
		// The slot was granted at the moment when the context ended.
		t.pool.GiveBack(tenant)
		t.grant()
	}
	return ctx.Err()
}

// release frees a slot and gives it to the next waiter.
func (t *parseSlots) release(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pool.GiveBack(tenant)
	t.grant()
}

// grant gives slots to waiting parses. The caller holds mu.
func (t *parseSlots) grant() {
	for {
		_, granted, ok := t.queue.Pop()
		if !ok {
			return
		}
		close(granted)
	}
}
