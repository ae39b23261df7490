// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A release may be requested burstRequests times in a row, and then once per requestInterval. This limits the cost of
// an object that changes very often.
const (
	burstRequests   = 20
	requestInterval = 10 * time.Second
)

// notifier requests the reconciliation of releases. It is safe for concurrent use.
type notifier struct {
	debounce time.Duration

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// beforeStart are the releases that changed before there was a queue.
	beforeStart map[types.NamespacedName]struct{}
	paces       map[types.NamespacedName]*pace
}

// pace holds the time of the next request of a release, and the limit of its requests.
type pace struct {
	due     time.Time
	limiter *rate.Limiter
}

// start implements the source of a controller.
func (n *notifier) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = queue
	for key := range n.beforeStart {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	n.beforeStart = nil
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.queue = nil
	})
	return nil
}

// changed requests a release. If a request is pending, it adds another request for the same time.
func (n *notifier) changed(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.queue == nil {
		if n.beforeStart == nil {
			n.beforeStart = map[types.NamespacedName]struct{}{}
		}
		n.beforeStart[key] = struct{}{}
		return
	}
	p := n.paces[key]
	if p == nil {
		p = &pace{limiter: rate.NewLimiter(rate.Every(requestInterval), burstRequests)}
		if n.paces == nil {
			n.paces = map[types.NamespacedName]*pace{}
		}
		n.paces[key] = p
	}
	now := time.Now()
	if !now.Before(p.due) {
		p.due = now.Add(max(n.debounce, p.limiter.ReserveN(now, 1).DelayFrom(now)))
	}
	// Add the request even if one is pending. The queue may have delivered the release early, and its pass may not have
	// read this change. The queue keeps only one request, the earliest.
	n.queue.AddAfter(reconcile.Request{NamespacedName: key}, p.due.Sub(now))
}

// forget drops the state of a release.
func (n *notifier) forget(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.beforeStart, key)
	delete(n.paces, key)
}
