// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
)

// NewFair returns a constructor of queues for a controller whose workers are shared between namespaces. Namespaces take
// turns, and no namespace has more workers than its share, see [fairshare.Pool]. The priority of a request orders the
// objects of one namespace only.
func NewFair(workers int) Constructor {
	return func(name string,
		limiter workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		return &stateQueue{PriorityQueue: newTurnQueue(newPriorityQueue(name, limiter), workers), priorityOf: asGiven}
	}
}

// asGiven returns the priority of a request, which is 0 by default.
func asGiven(_ ctrl.Request, given *int) int {
	if given == nil {
		return 0
	}
	return *given
}

// turnQueue gives the workers of a controller to namespaces in turn. The inner queue keeps delays, and does not give an
// object to two workers at the same time. An object that is due moves at once from the inner queue to waiting. So the
// metric of the queue depth counts few objects, and the metric of the work duration includes the time in waiting.
type turnQueue struct {
	priorityqueue.PriorityQueue[ctrl.Request]

	mu sync.Mutex
	// changed is signalled when an object may have become ready for a worker.
	changed *sync.Cond
	workers *fairshare.Pool[string]
	waiting *fairshare.Queue[string, ctrl.Request]
	// priorities holds the priorities of the objects in waiting.
	priorities map[ctrl.Request]int
	isOver     bool
}

func newTurnQueue(due priorityqueue.PriorityQueue[ctrl.Request], workers int) *turnQueue {
	q := &turnQueue{
		PriorityQueue: due, workers: fairshare.NewPool[string](workers, workers), priorities: map[ctrl.Request]int{},
	}
	q.changed = sync.NewCond(&q.mu)
	q.waiting = fairshare.NewQueue[string, ctrl.Request](q.workers)
	go q.fill()
	return q
}

// fill moves the objects that are due to waiting, until the queue is shut down.
func (q *turnQueue) fill() {
	for {
		object, priority, isOver := q.PriorityQueue.GetWithPriority()
		q.mu.Lock()
		q.isOver = isOver
		if !isOver {
			q.waiting.PushWithPriority(object.Namespace, object, priority)
			q.priorities[object] = priority
		}
		q.changed.Broadcast()
		q.mu.Unlock()
		if isOver {
			return
		}
	}
}

// AddWithOpts implements priorityqueue.PriorityQueue. An object in waiting needs no second entry: its pass will begin
// after the request.
func (q *turnQueue) AddWithOpts(opts priorityqueue.AddOpts, objects ...ctrl.Request) {
	isDue := opts.After <= 0 && !opts.RateLimited
	for _, object := range objects {
		if !isDue || !q.isWaiting(object, asGiven(object, opts.Priority)) {
			q.PriorityQueue.AddWithOpts(opts, object)
		}
	}
}

// isWaiting reports whether an object is in waiting, and raises its priority there.
func (q *turnQueue) isWaiting(object ctrl.Request, priority int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, ok := q.priorities[object]
	if ok && priority > before {
		q.priorities[object] = priority
		q.waiting.Raise(object.Namespace, object, priority)
	}
	return ok
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *turnQueue) GetWithPriority() (object ctrl.Request, priority int, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.isOver {
		if _, object, ok := q.waiting.Pop(); ok {
			priority := q.priorities[object]
			delete(q.priorities, object)
			return object, priority, false
		}
		q.changed.Wait()
	}
	return object, 0, true
}

// Get implements workqueue.TypedInterface.
func (q *turnQueue) Get() (object ctrl.Request, shutdown bool) {
	object, _, shutdown = q.GetWithPriority()
	return object, shutdown
}

// Done implements workqueue.TypedInterface.
func (q *turnQueue) Done(object ctrl.Request) {
	q.PriorityQueue.Done(object)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers.GiveBack(object.Namespace)
	q.changed.Broadcast()
}

// Len implements workqueue.TypedInterface.
func (q *turnQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.PriorityQueue.Len() + q.waiting.Len()
}
