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
	// changes are the releases that changed and are not in the queue yet; nil if there are none. While there are changes
	// and a queue, a goroutine for enqueue is about to run.
	changes map[types.NamespacedName]struct{}
	paces   map[types.NamespacedName]*pace
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
	if n.changes != nil {
		go n.enqueue()
	}
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.queue = nil
	})
	return nil
}

// changed requests a release. It does not use the queue itself: its callers hold the lock of the Watcher, and the queue
// looks up the state of each release.
func (n *notifier) changed(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changes == nil {
		n.changes = map[types.NamespacedName]struct{}{}
		if n.queue != nil {
			go n.enqueue()
		}
	}
	n.changes[key] = struct{}{}
}

// enqueue adds a request for each change to the queue. It does so even if a request is pending: the queue may have
// delivered the release early, and its pass may not have read this change. The queue keeps only one request, the
// earliest.
func (n *notifier) enqueue() {
	queue, delays := n.take()
	for key, delay := range delays {
		queue.AddAfter(reconcile.Request{NamespacedName: key}, delay)
	}
}

// take returns the changed releases with the delays of their requests. After the end of the controller, there are none.
func (n *notifier) take() (queue workqueue.TypedRateLimitingInterface[reconcile.Request],
	delays map[types.NamespacedName]time.Duration,
) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changes := n.changes
	if n.changes = nil; n.queue == nil {
		return nil, nil
	}
	now := time.Now()
	delays = make(map[types.NamespacedName]time.Duration, len(changes))
	for key := range changes {
		delays[key] = n.dueLocked(key, now).Sub(now)
	}
	return n.queue, delays
}

// dueLocked returns the time of the next request of a release.
func (n *notifier) dueLocked(key types.NamespacedName, now time.Time) time.Time {
	p := n.paces[key]
	if p == nil {
		p = &pace{limiter: rate.NewLimiter(rate.Every(requestInterval), burstRequests)}
		if n.paces == nil {
			n.paces = map[types.NamespacedName]*pace{}
		}
		n.paces[key] = p
	}
	if !now.Before(p.due) {
		p.due = now.Add(max(n.debounce, p.limiter.ReserveN(now, 1).DelayFrom(now)))
	}
	return p.due
}

// forget drops the state of a release.
func (n *notifier) forget(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.changes, key)
	delete(n.paces, key)
}
