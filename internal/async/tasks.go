// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package async

import (
	"context"
	"errors"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
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

	// unbounded is a number of tasks that no controller reaches.
	unbounded = 1 << 28
)

// errPanic replaces a panic, because its text may contain secret values.
var errPanic = errors.New("internal error: panic, see the manager's log; please report it")

// Tasks run long work that must not hold a worker, for example requests to a slow registry. If a task is not done
// within Grace, its object is enqueued again when the task is done.
type Tasks[T any] struct {
	// Waker enqueues the objects of finished tasks. Before its source has started, it enqueues nothing.
	Waker Waker

	// Kept is how long a result is kept for the objects that wait for it.
	Kept time.Duration

	mu sync.Mutex
	// waitingWorkers limits the workers that wait for a task. Namespaces share the limit.
	waitingWorkers *fairshare.Pool[string]
	// slots limits the running tasks. queue holds the tasks without a slot by the namespace of their first object.
	slots *fairshare.Pool[string]
	queue *fairshare.Queue[string, *task[T]]
	// running has the tasks that have not ended, and the ended tasks whose results are kept.
	running map[string]*task[T]
}

type task[T any] struct {
	Task[T]
	begun time.Time

	// begin runs the work.
	begin func()

	// done is closed when outcome is set.
	done    chan struct{}
	outcome TaskOutcome[T]

	// waiting has the objects that wait for the outcome. expiry is the timer that drops an unused outcome. Tasks.mu
	// guards both.
	waiting sets.Set[ctrl.Request]
	expiry  *time.Timer
}

// NewTasks returns the tasks of a controller with the given number of workers. At most half of the workers wait for a
// task. Each namespace may use only its share of that half.
func NewTasks[T any](workers int) *Tasks[T] { return newTasks[T](max(1, workers/2), maxTasks) }

// NewUnboundedTasks returns tasks that all run at once. At most the given number of workers wait for them.
func NewUnboundedTasks[T any](waitingWorkers int) *Tasks[T] {
	return newTasks[T](waitingWorkers, unbounded)
}

func newTasks[T any](waitingWorkers, most int) *Tasks[T] {
	slots := fairshare.NewPool[string](most, most)
	return &Tasks[T]{
		Kept: resultKept, waitingWorkers: fairshare.NewPool[string](waitingWorkers, waitingWorkers),
		slots: slots, queue: fairshare.NewQueue[string, *task[T]](slots), running: map[string]*task[T]{},
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

// Len returns the number of running tasks plus the number of unused results.
func (e *Tasks[T]) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.running)
}

// IsUnderWay reports whether a key has a task that runs or a result that is kept.
func (e *Tasks[T]) IsUnderWay(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[key] != nil
}

// Run runs work for a key. Objects that request the same key before the work is done share it, and each gets the result
// once. If ok is false, the work still runs. The object is then enqueued again when the work is done.
func (e *Tasks[T]) Run(ctx context.Context, key string, object ctrl.Request,
	work func(context.Context) (T, error),
) (value T, err error, ok bool) {
	return e.RunIf(ctx, Grace, key, object, func() bool { return true }, work)
}

// RunIf is Run with another waiting time than Grace, and with a condition for new work. With a waiting time of 0, the
// worker does not wait. RunIf calls mayBegin if there is neither work that runs nor a result for the object. If
// mayBegin returns true, the work always runs. Otherwise ok is false, and the object is not enqueued again. mayBegin
// must not call methods of the Tasks.
func (e *Tasks[T]) RunIf(ctx context.Context, grace time.Duration, key string, object ctrl.Request,
	mayBegin func() bool, work func(context.Context) (T, error),
) (value T, err error, ok bool) {
	e.mu.Lock()
	if e.usable(key, object) == nil && !mayBegin() {
		e.mu.Unlock()
		return value, nil, false
	}
	jobs := []*task[T]{e.join(ctx, Task[T]{key, work}, object)}
	e.mu.Unlock()
	outcomes, err := e.results(ctx, grace, object, jobs)
	if err != nil {
		return value, err, true
	}
	return outcomes[0].Value, outcomes[0].Err, outcomes[0].Done
}

// RunAll runs several tasks in parallel, each like Run. The worker waits no longer than in Run. The error is the error
// of ctx.
func (e *Tasks[T]) RunAll(ctx context.Context, object ctrl.Request, tasks []Task[T]) ([]TaskOutcome[T], error) {
	jobs := make([]*task[T], len(tasks))
	e.mu.Lock()
	for i := range tasks {
		jobs[i] = e.join(ctx, tasks[i], object)
	}
	e.mu.Unlock()
	return e.results(ctx, Grace, object, jobs)
}

// results waits for tasks and returns their outcomes for an object. The error is the error of ctx.
func (e *Tasks[T]) results(ctx context.Context, grace time.Duration, object ctrl.Request,
	jobs []*task[T],
) ([]TaskOutcome[T], error) {
	if err := e.await(ctx, grace, object.Namespace, jobs); err != nil {
		return nil, err
	}
	outcomes := make([]TaskOutcome[T], len(jobs))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, job := range jobs {
		if outcomes[i] = job.outcome; !job.outcome.Done {
			job.waiting.Insert(object)
		} else if job.waiting.Delete(object); len(job.waiting) == 0 {
			e.drop(job)
		}
	}
	return outcomes, nil
}

// Deliver stores an outcome for an object without running a task, and enqueues the object.
func (e *Tasks[T]) Deliver(key string, object ctrl.Request, value T, err error) {
	job := &task[T]{Task: Task[T]{Key: key}, done: make(chan struct{}), waiting: sets.New(object),
		outcome: TaskOutcome[T]{value, err, true}}
	close(job.done)
	e.mu.Lock()
	if e.running[key] == nil {
		e.running[key] = job
		e.keep(job)
	}
	e.mu.Unlock()
	e.Waker.Wake(object)
}

// usable returns the task with a key if it runs, or if its result is for the object; otherwise nil. Callers of usable,
// join, beginNext and drop must hold mu.
func (e *Tasks[T]) usable(key string, object ctrl.Request) *task[T] {
	if job := e.running[key]; job != nil && (!job.outcome.Done || job.waiting.Has(object)) {
		return job
	}
	return nil
}

// join returns the task with the key of t. It begins a new task if there is none, or if the object already used the
// result.
func (e *Tasks[T]) join(ctx context.Context, t Task[T], object ctrl.Request) *task[T] {
	if job := e.usable(t.Key, object); job != nil {
		return job
	}
	if job := e.running[t.Key]; job != nil {
		e.drop(job)
	}
	job := &task[T]{Task: t, begun: time.Now(), done: make(chan struct{}), waiting: sets.Set[ctrl.Request]{}}
	base := e.Waker.controllerContext()
	job.begin = func() { e.end(job, object.Namespace, perform(ctx, base, t.Work)) }
	e.running[t.Key] = job
	e.queue.Push(object.Namespace, job)
	e.beginNext()
	return job
}

// beginNext begins waiting tasks while slots are free.
func (e *Tasks[T]) beginNext() {
	for _, job, ok := e.queue.Pop(); ok; _, job, ok = e.queue.Pop() {
		go job.begin()
	}
}

// drop removes a task that has ended.
func (e *Tasks[T]) drop(job *task[T]) {
	if job.expiry != nil {
		job.expiry.Stop()
	}
	if e.running[job.Key] == job {
		delete(e.running, job.Key)
	}
}

// await waits for tasks until the grace of the newest task is over. The caller must not hold mu.
func (e *Tasks[T]) await(ctx context.Context, grace time.Duration, namespace string, jobs []*task[T]) error {
	var rest time.Duration
	for _, job := range jobs {
		rest = max(rest, grace-time.Since(job.begun))
	}
	e.mu.Lock()
	mayWait := rest > 0 && e.waitingWorkers.Admits(namespace)
	if mayWait {
		e.waitingWorkers.Take(namespace)
	}
	e.mu.Unlock()
	if !mayWait {
		return nil
	}
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

// end records the outcome of a task and frees its slot. Then it wakes the objects that wait for the task; it does not
// hold the lock for this.
func (e *Tasks[T]) end(job *task[T], namespace string, outcome TaskOutcome[T]) {
	for _, object := range e.setOutcome(job, namespace, outcome) {
		e.Waker.Wake(object)
	}
}

func (e *Tasks[T]) setOutcome(job *task[T], namespace string, outcome TaskOutcome[T]) (waiting []ctrl.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	job.outcome = outcome
	close(job.done)
	e.slots.GiveBack(namespace)
	e.beginNext()
	if len(job.waiting) == 0 {
		e.drop(job)
		return nil
	}
	e.keep(job)
	return job.waiting.UnsortedList()
}

// keep drops the outcome of a task after the time Kept. The caller holds mu.
func (e *Tasks[T]) keep(job *task[T]) {
	job.expiry = time.AfterFunc(e.Kept, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.drop(job)
	})
}

// perform runs the work. Its context has the values of the first object's context, but only the end of the manager
// cancels it.
func perform[T any](ctx, base context.Context, work func(context.Context) (T, error)) TaskOutcome[T] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if base != nil {
		stop := context.AfterFunc(base, cancel)
		defer stop()
	}
	value, err := Guarded(ctx, work)
	return TaskOutcome[T]{value, err, true}
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
