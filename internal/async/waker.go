// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package async

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// PriorityOfSlot is the priority of an object that has been granted a slot. Until this object uses the slot, no
	// other object can.
	PriorityOfSlot = 100

	// PriorityOfBegun is the lowest priority of an object that continues begun work, see [Waker.Begun]. It is above the
	// priority of objects that are only checked, and below all other priorities.
	PriorityOfBegun = -80
)

// Waker enqueues objects of a controller when their results are available, so no object needs to poll. The zero value
// enqueues nothing until its source has started. A Waker is safe for concurrent use.
type Waker struct {
	// Begun is true if the results expire. Then the woken objects come before objects that are only checked and have not
	// begun. It must not change after the source has started.
	Begun bool

	mu    sync.Mutex
	base  context.Context
	queue RequestQueue
}

// Source returns the source of the enqueued objects. Callers add it to their controller.
func (w *Waker) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.base, w.queue = ctx, queue
		return nil
	})
}

// controllerContext returns the context of the controller; nil before the controller starts.
func (w *Waker) controllerContext() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base
}

// Wake enqueues an object with the priority that its state has. With Begun, this is at least PriorityOfBegun.
func (w *Waker) Wake(object ctrl.Request) {
	if w.Begun {
		w.wakeWith(PriorityOfBegun, object)
	} else if queue := w.started(); queue != nil {
		queue.Add(object)
	}
}

// started returns the queue of the controller; nil before the controller starts. Callers must not hold the lock when
// they use the queue, because the queue looks up the priority of each added object.
func (w *Waker) started() RequestQueue {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue
}

// WakeFirst enqueues an object before all others, because it holds a slot that other objects need.
func (w *Waker) WakeFirst(object ctrl.Request) { w.wakeWith(PriorityOfSlot, object) }

func (w *Waker) wakeWith(priority int, object ctrl.Request) {
	switch queue := w.started().(type) {
	case nil:
	case priorityqueue.PriorityQueue[ctrl.Request]:
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, object)
	default:
		queue.Add(object)
	}
}

// RequestQueue is the queue of a controller.
type RequestQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]
