// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package async

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// begin begins a task for an object that does not wait for the result.
func begin(t *testing.T, e *Tasks[int], key, name string, work func(context.Context) (int, error)) {
	t.Helper()
	if _, err, ok := e.Run(t.Context(), key, controllertest.RequestFor(name), work); ok || err != nil {
		t.Fatalf("%s: done before it can be: %v", name, err)
	}
}

// startedTasks returns the tasks of a running controller, and its queue.
func startedTasks(t *testing.T) (*Tasks[int], workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	e := NewTasks[int](4)
	ctx, cancel := context.WithCancel(context.Background())
	if err := e.Waker.Source().Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); queue.ShutDown() })
	return e, queue
}

func TestQuickTaskNeedsNoSecondPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedTasks(t)
		value, err, ok := e.Run(t.Context(), "k", controllertest.RequestFor("a"),
			func(context.Context) (int, error) { return 1, nil })
		synctest.Wait()
		if value != 1 || err != nil || !ok {
			t.Errorf("got %d, %v, %v", value, err, ok)
		}
		if queue.Len() != 0 || len(e.running) != 0 {
			t.Errorf("%d objects come back, %d tasks are kept, want none", queue.Len(), len(e.running))
		}
	})
}

func TestSlowTaskHoldsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedTasks(t)
		begun := time.Now()
		failure := errors.New("no answer")
		var runs atomic.Int32
		work := func(context.Context) (int, error) {
			runs.Add(1)
			<-time.After(30 * time.Second)
			return 0, failure
		}
		for _, name := range []string{"a", "b", "c"} {
			if _, _, ok := e.Run(t.Context(), "k", controllertest.RequestFor(name), work); ok {
				t.Fatalf("%s: done before it can be", name)
			}
		}
		if held := time.Since(begun); held != Grace {
			t.Errorf("workers were held for %s, want %s: who comes later waits for nothing", held, Grace)
		}
		for range 3 {
			object, _ := queue.Get()
			queue.Done(object)
			if _, err, ok := e.Run(t.Context(), "k", object, work); !ok || !errors.Is(err, failure) {
				t.Errorf("%s: got %v, %v, want the failure", object.Name, err, ok)
			}
		}
		if runs.Load() != 1 || len(e.running) != 0 {
			t.Errorf("ran %d times, %d tasks are kept, want 1 and none", runs.Load(), len(e.running))
		}
	})
}

// TestRunAllRunsTasksInParallel checks that the tasks of one object run in parallel. Results of finished tasks are
// collected while other tasks still run.
func TestRunAllRunsTasksInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedTasks(t)
		after := func(wait time.Duration, value int) func(context.Context) (int, error) {
			return func(context.Context) (int, error) {
				<-time.After(wait)
				return value, nil
			}
		}
		tasks := []Task[int]{{"slow", after(time.Minute, 1)}, {"quick", after(time.Millisecond, 2)},
			{"also slow", after(2*time.Minute, 3)}}
		begun := time.Now()
		outcomes, err := e.RunAll(t.Context(), controllertest.RequestFor("a"), tasks)
		if held := time.Since(begun); err != nil || held != Grace {
			t.Errorf("held the worker for %s: %v", held, err)
		}
		want := []TaskOutcome[int]{{}, {Value: 2, Done: true}, {}}
		if !slices.Equal(outcomes, want) {
			t.Errorf("got %v, want %v", outcomes, want)
		}
		object, _ := queue.Get()
		queue.Done(object)
		if outcomes, err = e.RunAll(t.Context(), object, []Task[int]{tasks[0], tasks[2]}); err != nil ||
			outcomes[0].Value != 1 || outcomes[1].Done {
			t.Errorf("got %v, %v, want the first and not yet the other", outcomes, err)
		}
		if held := time.Since(begun); held != time.Minute {
			t.Errorf("came back after %s", held)
		}
		queue.Get()
		synctest.Wait()
	})
}

// TestTaskResultIsCollectedOnce checks an object that has collected a result and requests the key again. It must not
// get the old result, even if another object has not collected the result yet.
func TestTaskResultIsCollectedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedTasks(t)
		var runs atomic.Int32
		work := func(context.Context) (int, error) {
			<-time.After(3 * time.Second)
			return int(runs.Add(1)), nil
		}
		begin(t, e, "k", "deleted", work)
		begin(t, e, "k", "a", work)
		<-time.After(4 * time.Second)
		if value, _, ok := e.Run(t.Context(), "k", controllertest.RequestFor("a"), work); !ok || value != 1 {
			t.Fatalf("got %d, %v, want the first result", value, ok)
		}
		if _, _, ok := e.Run(t.Context(), "k", controllertest.RequestFor("a"), work); ok {
			t.Fatal("got a result that was collected already")
		}
		<-time.After(4 * time.Second)
		if value, _, ok := e.Run(t.Context(), "k", controllertest.RequestFor("a"), work); !ok || value != 2 {
			t.Errorf("got %d, %v, want the second result", value, ok)
		}
		begin(t, e, "forsaken", "deleted", work)
		<-time.After(resultKept + 4*time.Second)
		_, _, ok := e.Run(t.Context(), "other", controllertest.RequestFor("a"),
			func(context.Context) (int, error) { return 0, nil })
		if !ok || len(e.running) != 0 {
			t.Errorf("%d tasks are kept, want none", len(e.running))
		}
	})
}

func TestTasksEndWithTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		defer queue.ShutDown()
		e := NewTasks[int](4)
		ctx, stop := context.WithCancel(context.Background())
		if err := e.Waker.Source().Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		work := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		pass, endPass := context.WithCancel(t.Context())
		if _, _, ok := e.Run(pass, "k", controllertest.RequestFor("a"), work); ok {
			t.Fatal("done before it can be")
		}
		endPass()
		synctest.Wait()
		if queue.Len() != 0 {
			t.Error("the end of a pass ended its task")
		}
		stop()
		object, _ := queue.Get()
		queue.Done(object)
		if _, err, ok := e.Run(t.Context(), "k", object, work); !ok || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", err, ok)
		}
	})
}

// TestTasksLeaveWorkersFree checks that slow tasks occupy at most half of the workers, and that half of this half is
// free for other namespaces.
func TestTasksLeaveWorkersFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedTasks(t)
		hang := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		begun := time.Now()
		waited := map[string]*atomic.Int32{"a": {}, "b": {}}
		for i := range 100 {
			object := controllertest.RequestFor(strconv.Itoa(i))
			object.Namespace = "a"
			if i >= 50 {
				object.Namespace = "b"
			}
			go func() {
				if _, _, ok := e.Run(t.Context(), strconv.Itoa(i), object, hang); ok {
					t.Error("done before it can be")
				}
				if time.Since(begun) > 0 {
					waited[object.Namespace].Add(1)
				}
			}()
		}
		<-time.After(2 * Grace)
		if a, b := waited["a"].Load(), waited["b"].Load(); a != 1 || b != 1 {
			t.Errorf("of 4 workers, %d and %d waited for two namespaces, want one each", a, b)
		}
	})
}

// TestTasksOfNamespaceLeaveSlotsToOthers checks that slow tasks of one namespace do not stop the tasks of another.
func TestTasksOfNamespaceLeaveSlotsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedTasks(t)
		end := make(chan struct{})
		var running atomic.Int32
		hang := func(context.Context) (int, error) {
			running.Add(1)
			<-end
			return 0, nil
		}
		for i := range 2 * maxTasks {
			begin(t, e, strconv.Itoa(i), strconv.Itoa(i), hang)
		}
		synctest.Wait()
		if n := running.Load(); n >= maxTasks {
			t.Errorf("one namespace has %d of %d places", n, maxTasks)
		}
		other := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "other", Name: "a"}}
		if value, err, ok := e.Run(t.Context(), "other", other, func(context.Context) (int, error) { return 1, nil }); !ok ||
			value != 1 {
			t.Errorf("got %d, %v, %t", value, err, ok)
		}
		close(end)
		synctest.Wait()
		if n := running.Load(); n != 2*maxTasks || queue.Len() != 2*maxTasks || e.slots.Total() != 0 || e.queue.Len() != 0 {
			t.Errorf("%d tasks ran, %d objects come back, %d places are taken, %d wait", n, queue.Len(), e.slots.Total(),
				e.queue.Len())
		}
	})
}

// TestDeliveredOutcomeNeedsNoTask checks that an object gets a delivered outcome once, and that it does not get an
// outdated one.
func TestDeliveredOutcomeNeedsNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedTasks(t)
		object, failure := controllertest.RequestFor("a"), errors.New("no answer")
		work := func(context.Context) (int, error) { return 1, nil }
		e.Deliver("k", object, 0, failure)
		if woken, _ := queue.Get(); woken != object {
			t.Errorf("%s was enqueued", woken)
		}
		for i, want := range []error{failure, nil} {
			if _, err, ok := e.Run(t.Context(), "k", object, work); !ok || !errors.Is(err, want) {
				t.Errorf("pass %d: got %v, %t, want %v", i, err, ok, want)
			}
		}
		e.Deliver("k", object, 0, failure)
		<-time.After(e.Kept + time.Second)
		if _, err, ok := e.Run(t.Context(), "k", object, work); err != nil || !ok {
			t.Errorf("late: %v, %t", err, ok)
		}
		begin(t, e, "other", "a", func(context.Context) (int, error) { <-time.After(time.Second); return 2, nil })
		e.Deliver("other", object, 0, failure)
		<-time.After(time.Second)
		if value, err, _ := e.Run(t.Context(), "other", object, work); value != 2 || err != nil {
			t.Errorf("the result of a task that runs was replaced: %d, %v", value, err)
		}
	})
}

// TestTaskResultExpires checks an object that was paused while its task ran. It must not get an outdated result.
func TestTaskResultExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedTasks(t)
		var runs atomic.Int32
		work := func(context.Context) (int, error) {
			<-time.After(time.Second)
			return int(runs.Add(1)), nil
		}
		begin(t, e, "k", "a", work)
		<-time.After(48 * time.Hour)
		if value, _, ok := e.Run(t.Context(), "k", controllertest.RequestFor("a"), work); ok {
			t.Errorf("got %d, of two days ago", value)
		}
		<-time.After(2 * time.Second)
	})
}

func TestPanicInTaskIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedTasks(t)
		_, err, ok := e.Run(t.Context(), "k", controllertest.RequestFor("a"),
			func(context.Context) (int, error) { panic("secret") })
		if !ok || !errors.Is(err, errPanic) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, %v", err, ok)
		}
	})
}

// TestWorkBeginsOnlyOnPermission checks that a task asks for permission exactly if it would begin new work, and that it
// then runs the work.
func TestWorkBeginsOnlyOnPermission(t *testing.T) {
	for name, tc := range map[string]struct {
		before      func(*testing.T, *Tasks[int])
		mayBegin    bool
		asked, runs int
		ok          bool
	}{
		"new":     {before: func(*testing.T, *Tasks[int]) {}, mayBegin: true, asked: 1, runs: 1, ok: true},
		"refused": {before: func(*testing.T, *Tasks[int]) {}, asked: 1},
		"has a result": {before: func(_ *testing.T, e *Tasks[int]) {
			e.Deliver("k", controllertest.RequestFor("a"), 0, nil)
		}, ok: true},
		"the result expired": {before: func(_ *testing.T, e *Tasks[int]) {
			e.Deliver("k", controllertest.RequestFor("a"), 0, nil)
			<-time.After(e.Kept)
			synctest.Wait()
		}, mayBegin: true, asked: 1, runs: 1, ok: true},
		"the result is for another object": {before: func(_ *testing.T, e *Tasks[int]) {
			e.Deliver("k", controllertest.RequestFor("b"), 0, nil)
		}, mayBegin: true, asked: 1, runs: 1, ok: true},
		"runs": {before: func(t *testing.T, e *Tasks[int]) {
			t.Helper()
			begin(t, e, "k", "b", func(context.Context) (int, error) { <-time.After(time.Minute); return 0, nil })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := startedTasks(t)
				tc.before(t, e)
				asked, runs := 0, 0
				_, err, ok := e.RunIf(t.Context(), Grace, "k", controllertest.RequestFor("a"), func() bool {
					asked++
					return tc.mayBegin
				}, func(context.Context) (int, error) { runs++; return 0, nil })
				if ok != tc.ok || err != nil || asked != tc.asked || runs != tc.runs {
					t.Errorf("done: %t, %v; asked %d times, %d runs", ok, err, asked, runs)
				}
				<-time.After(time.Minute)
			})
		})
	}
}

// TestOutdatedResultIsNotUsed checks that a key is not under way any more when its result is too old.
func TestOutdatedResultIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedTasks(t)
		work := func(context.Context) (int, error) {
			<-time.After(time.Second)
			return 1, nil
		}
		begin(t, e, "k", "a", work)
		for _, step := range []struct {
			after time.Duration
			want  bool
		}{{0, true}, {2 * time.Second, true}, {e.Kept - 2*time.Second, true}, {2 * time.Second, false}} {
			<-time.After(step.after)
			if got := e.IsUnderWay("k"); got != step.want {
				t.Errorf("%s later: %t", step.after, got)
			}
		}
	})
}
