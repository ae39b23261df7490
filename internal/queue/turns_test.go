// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

func objectIn(namespace string, number int) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%04d", number)}}
}

// fairQueue returns a queue for a number of workers that ends with the test. It also returns a function that waits
// until a number of objects wait for a worker.
func fairQueue(t testing.TB, workers int) (*stateQueue, func(int)) {
	t.Helper()
	q, _ := NewFair(workers)(t.Name(), requeue.NewLimiter()).(*stateQueue)
	t.Cleanup(q.ShutDown)
	turns, _ := q.PriorityQueue.(*turnQueue)
	return q, func(want int) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 20*time.Second, true,
			func(context.Context) (bool, error) {
				turns.mu.Lock()
				defer turns.mu.Unlock()
				return turns.waiting.Len() == want, nil
			}); err != nil {
			t.Fatalf("not %d objects are waiting: %v", want, err)
		}
	}
}

// get returns the next object, which must be available.
func get(t *testing.T, q *stateQueue) ctrl.Request {
	t.Helper()
	objects := make(chan ctrl.Request, 1)
	go func() {
		object, _ := q.Get()
		objects <- object
	}()
	select {
	case object := <-objects:
		return object
	case <-time.After(2 * time.Minute):
		t.Fatal("no object is available")
		return ctrl.Request{}
	}
}

// TestNamespacesShareWorkers checks that a namespace with many objects, whose passes do not end, leaves workers to
// other namespaces, and that namespaces take turns.
func TestNamespacesShareWorkers(t *testing.T) {
	t.Parallel()
	q, waitFor := fairQueue(t, 4)
	for i := range 1000 {
		q.Add(objectIn("many", i))
	}
	waitFor(1000)
	held := []ctrl.Request{get(t, q), get(t, q), get(t, q)}
	q.Add(objectIn("one", 1))
	waitFor(998)
	one := get(t, q)
	if one.Namespace != "one" {
		t.Fatalf("the last worker is for %s", one)
	}
	q.Add(objectIn("two", 1))
	waitFor(998)
	q.Done(held[0])
	if next := get(t, q); next.Namespace != "two" {
		t.Errorf("the next worker is for %s", next)
	}
	q.Done(held[1])
	q.Done(one)
	if next := get(t, q); next.Namespace != "many" {
		t.Errorf("without others, the next worker is for %s", next)
	}
}

// TestPriorityWithinNamespace checks that the priority orders the objects of a namespace, even if it is raised while an
// object waits.
func TestPriorityWithinNamespace(t *testing.T) {
	t.Parallel()
	q, waitFor := fairQueue(t, 1)
	for i := range 5 {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, objectIn("a", i))
	}
	waitFor(5)
	q.Add(objectIn("a", 7))
	waitFor(6)
	q.Add(objectIn("a", 3))
	var order []string
	for range 6 {
		object := get(t, q)
		order = append(order, object.Name)
		q.Done(object)
	}
	if got := fmt.Sprint(order); got != "[0007 0003 0000 0001 0002 0004]" {
		t.Errorf("the order is %s", got)
	}
}

// TestRequestsForObjectsAreMerged checks that several requests for a waiting object cause one pass, and that a request
// during a pass causes another pass.
func TestRequestsForObjectsAreMerged(t *testing.T) {
	t.Parallel()
	q, waitFor := fairQueue(t, 2)
	object := objectIn("a", 1)
	q.Add(object)
	waitFor(1)
	for range 10 {
		q.Add(object)
	}
	if got := get(t, q); got != object || q.Len() != 0 {
		t.Errorf("%s, and then %d objects", got, q.Len())
	}
	q.Add(object)
	other := objectIn("b", 1)
	q.Add(other)
	if got := get(t, q); got != other {
		t.Errorf("%s has two workers", got)
	}
	q.Done(object)
	if got := get(t, q); got != object {
		t.Errorf("the next pass is over %s", got)
	}
}

// BenchmarkRequestForWaitingObject requests an object that waits as the last of many objects of its namespace.
func BenchmarkRequestForWaitingObject(b *testing.B) {
	for _, objects := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(objects, " objects"), func(b *testing.B) {
			q, waitFor := fairQueue(b, 2)
			for i := range objects {
				q.Add(objectIn("a", i))
			}
			waitFor(objects)
			for b.Loop() {
				q.Add(objectIn("a", objects-1))
			}
		})
	}
}

// TestFairQueueEnds checks that all workers end when the queue is shut down.
func TestFairQueueEnds(t *testing.T) {
	t.Parallel()
	q := NewFair(3)(t.Name(), requeue.NewLimiter())
	ended := make(chan bool)
	for range 3 {
		go func() {
			_, shutdown := q.Get()
			ended <- shutdown
		}()
	}
	q.ShutDown()
	for range 3 {
		select {
		case shutdown := <-ended:
			if !shutdown {
				t.Error("a worker got an object")
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("a worker waits")
		}
	}
}
