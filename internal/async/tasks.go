// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package async

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
)

const (
	// Grace is how long a worker waits for a task before it continues with other objects. A healthy registry responds
	// within this time, so its objects need no second pass.
	Grace = 500 * time.Millisecond

	// resultKept is how long a result is kept for the objects that wait for it. Normally, they use the result as soon
	// as a worker is free, but they may be paused or changed. An older result is not used.
	resultKept = 5 * time.Minute

	// maxTasks is the maximum number of concurrent tasks of a controller. Other tasks wait in a queue that namespaces
	// share fairly.
	maxTasks = 256

	// sweepsPerKept is the number of sweeps for old results within resultKept.
	sweepsPerKept = 10
)

// errPanic replaces a panic, because its text may contain secret values.
var errPanic = errors.New("internal error: panic, see the manager's log; please report it")

// Tasks run long work that must not hold a worker, for example requests to a slow registry. If a task is not done
// within Grace, its object is enqueued again when the task is done.
type Tasks[T any] struct {
	Now func() time.Time

	// Waker enqueues the objects of finished tasks. Before its source has started, it enqueues nothing.
	Waker Waker

	mu sync.Mutex
	// waitingWorkers limits the workers that wait for a task. Namespaces share the limit.
	waitingWorkers *fairshare.Pool[string]
	// slots limits the running tasks. queue holds the waiting tasks by the namespace of their first object. Both are
	// nil if all tasks run at once.
	slots *fairshare.Pool[string]
	queue *fairshare.Queue[string, *task[T]]
	// Kept is how long a result is kept for the objects that wait for it.
	Kept    time.Duration
	running map[string]*task[T]
	// swept is the time of the last sweep.
	swept time.Time
}

// Len returns the number of running tasks plus the number of unused results.
func (e *Tasks[T]) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.running)
}

type task[T any] struct {
	// done is closed when value, err and ended are set.
	done         chan struct{}
	value        T
	err          error
	begun, ended time.Time

	// begin runs the work.
	begin func()

	// waiting are the objects that wait for the result. Tasks.mu guards them.
	waiting map[ctrl.Request]struct{}
}

// NewTasks returns the tasks of a controller with the given number of workers. At most half of the workers wait for a
// task. Each namespace may use only its share of that half.
func NewTasks[T any](workers int) *Tasks[T] {
	e := NewUnboundedTasks[T](max(1, workers/2))
	e.slots = fairshare.NewPool[string](maxTasks, maxTasks)
	e.queue = fairshare.NewQueue[string, *task[T]](e.slots)
	return e
}

// NewUnboundedTasks returns tasks that all run at once. At most the given number of workers wait for them.
func NewUnboundedTasks[T any](waitingWorkers int) *Tasks[T] {
	return &Tasks[T]{
		Now: time.Now, waitingWorkers: fairshare.NewPool[string](waitingWorkers, waitingWorkers), Kept: resultKept,
		running: map[string]*task[T]{},
	}
}

// Task is work with a key. Objects that request the same key share the task.
type Task[T any] struct {
	Key  string
	Work func(context.Context) (T, error)
}

// TaskOutcome is the result of a task. If Done is false, the task still runs. The object is then enqueued again when
// the task is done.
type TaskOutcome[T any] struct {
	Value T
	Err   error
	Done  bool
}

// Run runs work for a key. Objects that request the same key before the work is done share it, and each gets the result
// once. If ok is false, the work still runs. The object is then enqueued again when the work is done.
func (e *Tasks[T]) Run(ctx context.Context, key string, object ctrl.Request,
	work func(context.Context) (T, error),
) (value T, err error, ok bool) {
	return e.RunWithin(ctx, Grace, key, object, work)
}

// RunWithin is Run with another waiting time than Grace. With 0, the worker does not wait.
func (e *Tasks[T]) RunWithin(ctx context.Context, grace time.Duration, key string, object ctrl.Request,
	work func(context.Context) (T, error),
) (value T, err error, ok bool) {
	job := e.join(ctx, key, object, work)
	if err := e.await(ctx, grace, object.Namespace, job); err != nil {
		return value, err, true
	}
	return e.takeResult(key, job, object)
}

// RunAll runs several tasks in parallel, each like Run. The worker waits no longer than in Run. The error is the error
// of ctx.
func (e *Tasks[T]) RunAll(ctx context.Context, object ctrl.Request, tasks []Task[T]) ([]TaskOutcome[T], error) {
	jobs := make([]*task[T], 0, len(tasks))
	for _, t := range tasks {
		jobs = append(jobs, e.join(ctx, t.Key, object, t.Work))
	}
	if err := e.await(ctx, Grace, object.Namespace, jobs...); err != nil {
		return nil, err
	}
	outcomes := make([]TaskOutcome[T], 0, len(tasks))
	for i, job := range jobs {
		value, err, done := e.takeResult(tasks[i].Key, job, object)
		outcomes = append(outcomes, TaskOutcome[T]{value, err, done})
	}
	return outcomes, nil
}

// await waits for tasks until the grace of the newest task is over.
func (e *Tasks[T]) await(ctx context.Context, grace time.Duration, namespace string, jobs ...*task[T]) error {
	e.mu.Lock()
	var rest time.Duration
	for _, job := range jobs {
		rest = max(rest, grace-e.Now().Sub(job.begun))
	}
	if rest <= 0 || !e.waitingWorkers.Admits(namespace) {
		e.mu.Unlock()
		return nil
	}
	e.waitingWorkers.Take(namespace)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.waitingWorkers.GiveBack(namespace)
	}()
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for _, job := range jobs {
		select {
		case <-job.done:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// join returns the task of a key. It begins a new task if there is none, or if the object already used the result.
func (e *Tasks[T]) join(ctx context.Context, key string, object ctrl.Request,
	work func(context.Context) (T, error),
) *task[T] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep()
	if job, ok := e.running[key]; ok {
		if _, waited := job.waiting[object]; waited || job.ended.IsZero() {
			return job
		}
	}
	job := &task[T]{done: make(chan struct{}), begun: e.Now(), waiting: map[ctrl.Request]struct{}{}}
	e.running[key] = job
	base := e.Waker.controllerContext()
	if e.queue == nil {
		go e.perform(ctx, base, key, job, work)
		return job
	}
	job.begin = func() {
		e.perform(ctx, base, key, job, work)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.slots.GiveBack(object.Namespace)
		e.beginNext()
	}
	e.queue.Push(object.Namespace, job)
	e.beginNext()
	return job
}

// beginNext begins waiting tasks while slots are free. The caller holds mu.
func (e *Tasks[T]) beginNext() {
	for {
		_, job, ok := e.queue.Pop()
		if !ok {
			return
		}
		go job.begin()
	}
}

// takeResult returns the result of a task. If there is no result yet, it adds the object to the waiting objects.
func (e *Tasks[T]) takeResult(key string, job *task[T], object ctrl.Request) (value T, err error, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if job.ended.IsZero() {
		job.waiting[object] = struct{}{}
		return value, nil, false
	}
	delete(job.waiting, object)
	e.release(key, job)
	return job.value, job.err, true
}

// perform runs the work. Its context has the values of the first object's context, but only the end of the manager
// cancels it.
func (e *Tasks[T]) perform(ctx, base context.Context, key string, job *task[T], work func(context.Context) (T, error)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if base != nil {
		stop := context.AfterFunc(base, cancel)
		defer stop()
	}
	value, err := Guarded(ctx, work)
	for _, object := range e.setResult(key, job, value, err) {
		e.Waker.Wake(object)
	}
}

// setResult records the result of a task, and returns the objects that wait for it.
func (e *Tasks[T]) setResult(key string, job *task[T], value T, err error) (waiting []ctrl.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	job.value, job.err, job.ended = value, err, e.Now()
	close(job.done)
	e.release(key, job)
	return slices.Collect(maps.Keys(job.waiting))
}

// Guarded runs work and turns a panic into an error, like the controller does for its workers. An artifact must not be
// able to terminate the manager.
func Guarded[T any](ctx context.Context, work func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			for _, handle := range utilruntime.PanicHandlers {
				handle(ctx, r)
			}
			err = errPanic
		}
	}()
	return work(ctx)
}

// release removes a finished task without waiting objects. The caller holds mu.
func (e *Tasks[T]) release(key string, job *task[T]) {
	if len(job.waiting) == 0 && e.running[key] == job {
		delete(e.running, key)
	}
}

// IsUnderWay reports whether a key has a running task or a usable result.
func (e *Tasks[T]) IsUnderWay(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	job, ok := e.running[key]
	if ok && e.isOutdated(job) {
		// The next object with this key begins a new task.
		delete(e.running, key)
		return false
	}
	return ok
}

// isOutdated reports whether the result of a task is too old. The caller holds mu.
func (e *Tasks[T]) isOutdated(job *task[T]) bool {
	return !job.ended.IsZero() && e.Now().Sub(job.ended) > e.Kept
}

// sweep removes results that no object used, because the objects were deleted or changed. It does nothing if the last
// sweep was recent. The caller holds mu.
func (e *Tasks[T]) sweep() {
	if e.Now().Sub(e.swept) < e.Kept/sweepsPerKept {
		return
	}
	e.swept = e.Now()
	for key, job := range e.running {
		if e.isOutdated(job) {
			delete(e.running, key)
		}
	}
}
