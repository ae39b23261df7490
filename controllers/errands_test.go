/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

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
)

// begin begins an errand for an object that is sent away.
func begin(t *testing.T, e *errands[int], key, name string, work func(context.Context) (int, error)) {
	t.Helper()
	if _, err, ok := e.run(t.Context(), key, requestFor(name), work); ok || err != nil {
		t.Fatalf("%s: done before it can be: %v", name, err)
	}
}

func requestFor(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// startedErrands are errands of a controller that runs, and its queue.
func startedErrands(t *testing.T) (*errands[int], workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	e := newErrands[int](4)
	ctx, cancel := context.WithCancel(context.Background())
	if err := e.waker.source().Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); queue.ShutDown() })
	return e, queue
}

func TestErrandThatIsQuickNeedsNoSecondPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedErrands(t)
		value, err, ok := e.run(t.Context(), "k", requestFor("a"), func(context.Context) (int, error) { return 1, nil })
		synctest.Wait()
		if value != 1 || err != nil || !ok {
			t.Errorf("got %d, %v, %v", value, err, ok)
		}
		if queue.Len() != 0 || len(e.running) != 0 {
			t.Errorf("%d objects come back, %d errands are kept, want none", queue.Len(), len(e.running))
		}
	})
}

func TestErrandThatIsSlowHoldsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedErrands(t)
		begun := time.Now()
		failure := errors.New("no answer")
		var runs atomic.Int32
		work := func(context.Context) (int, error) {
			runs.Add(1)
			<-time.After(30 * time.Second)
			return 0, failure
		}
		for _, name := range []string{"a", "b", "c"} {
			if _, _, ok := e.run(t.Context(), "k", requestFor(name), work); ok {
				t.Fatalf("%s: done before it can be", name)
			}
		}
		if held := time.Since(begun); held != errandGrace {
			t.Errorf("workers were held for %s, want %s: who comes later waits for nothing", held, errandGrace)
		}
		for range 3 {
			object, _ := queue.Get()
			queue.Done(object)
			if _, err, ok := e.run(t.Context(), "k", object, work); !ok || !errors.Is(err, failure) {
				t.Errorf("%s: got %v, %v, want the failure", object.Name, err, ok)
			}
		}
		if runs.Load() != 1 || len(e.running) != 0 {
			t.Errorf("ran %d times, %d errands are kept, want 1 and none", runs.Load(), len(e.running))
		}
	})
}

// Tasks of one object run side by side; those that are done are collected while others go on.
func TestErrandsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedErrands(t)
		after := func(wait time.Duration, value int) func(context.Context) (int, error) {
			return func(context.Context) (int, error) {
				<-time.After(wait)
				return value, nil
			}
		}
		tasks := []task[int]{{"slow", after(time.Minute, 1)}, {"quick", after(time.Millisecond, 2)}, {"also slow", after(2*time.Minute, 3)}}
		begun := time.Now()
		outcomes, err := e.runAll(t.Context(), requestFor("a"), tasks)
		if held := time.Since(begun); err != nil || held != errandGrace {
			t.Errorf("held the worker for %s: %v", held, err)
		}
		want := []taskOutcome[int]{{}, {value: 2, done: true}, {}}
		if !slices.Equal(outcomes, want) {
			t.Errorf("got %v, want %v", outcomes, want)
		}
		object, _ := queue.Get()
		queue.Done(object)
		if outcomes, err = e.runAll(t.Context(), object, []task[int]{tasks[0], tasks[2]}); err != nil || outcomes[0].value != 1 || outcomes[1].done {
			t.Errorf("got %v, %v, want the first and not yet the other", outcomes, err)
		}
		if held := time.Since(begun); held != time.Minute {
			t.Errorf("came back after %s", held)
		}
		queue.Get()
		synctest.Wait()
	})
}

// An object that has collected a result and asks again must not get the old one, though another object never came for it.
func TestErrandResultIsCollectedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedErrands(t)
		var runs atomic.Int32
		work := func(context.Context) (int, error) {
			<-time.After(3 * time.Second)
			return int(runs.Add(1)), nil
		}
		begin(t, e, "k", "deleted", work)
		begin(t, e, "k", "a", work)
		<-time.After(4 * time.Second)
		if value, _, ok := e.run(t.Context(), "k", requestFor("a"), work); !ok || value != 1 {
			t.Fatalf("got %d, %v, want the first result", value, ok)
		}
		if _, _, ok := e.run(t.Context(), "k", requestFor("a"), work); ok {
			t.Fatal("got a result that was collected already")
		}
		<-time.After(4 * time.Second)
		if value, _, ok := e.run(t.Context(), "k", requestFor("a"), work); !ok || value != 2 {
			t.Errorf("got %d, %v, want the second result", value, ok)
		}
		begin(t, e, "forsaken", "deleted", work)
		<-time.After(errandKept + 4*time.Second)
		_, _, ok := e.run(t.Context(), "other", requestFor("a"), func(context.Context) (int, error) { return 0, nil })
		if !ok || len(e.running) != 0 {
			t.Errorf("%d errands are kept, want none", len(e.running))
		}
	})
}

func TestErrandsEndWithTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		defer queue.ShutDown()
		e := newErrands[int](4)
		ctx, stop := context.WithCancel(context.Background())
		if err := e.waker.source().Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		work := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		pass, endPass := context.WithCancel(t.Context())
		if _, _, ok := e.run(pass, "k", requestFor("a"), work); ok {
			t.Fatal("done before it can be")
		}
		endPass()
		synctest.Wait()
		if queue.Len() != 0 {
			t.Error("the end of a pass ended its errand")
		}
		stop()
		object, _ := queue.Get()
		queue.Done(object)
		if _, err, ok := e.run(t.Context(), "k", object, work); !ok || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", err, ok)
		}
	})
}

// Half of the workers are left for what needs no registry, however many errands hang, and half of the others for other namespaces.
func TestErrandsLeaveWorkersFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedErrands(t)
		hang := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		begun := time.Now()
		waited := map[string]*atomic.Int32{"a": {}, "b": {}}
		for i := range 100 {
			object := requestFor(strconv.Itoa(i))
			object.Namespace = "a"
			if i >= 50 {
				object.Namespace = "b"
			}
			go func() {
				if _, _, ok := e.run(t.Context(), strconv.Itoa(i), object, hang); ok {
					t.Error("done before it can be")
				}
				if time.Since(begun) > 0 {
					waited[object.Namespace].Add(1)
				}
			}()
		}
		<-time.After(2 * errandGrace)
		if a, b := waited["a"].Load(), waited["b"].Load(); a != 1 || b != 1 {
			t.Errorf("of 4 workers, %d and %d waited for two namespaces, want one each", a, b)
		}
	})
}

// TestErrandsOfANamespaceLeavePlacesToOthers holds that a namespace whose errands hang does not stop those of another one.
func TestErrandsOfANamespaceLeavePlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, queue := startedErrands(t)
		end := make(chan struct{})
		var running atomic.Int32
		hang := func(context.Context) (int, error) {
			running.Add(1)
			<-end
			return 0, nil
		}
		for i := range 2 * maxErrands {
			begin(t, e, strconv.Itoa(i), strconv.Itoa(i), hang)
		}
		synctest.Wait()
		if n := running.Load(); n >= maxErrands {
			t.Errorf("one namespace has %d of %d places", n, maxErrands)
		}
		other := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "other", Name: "a"}}
		if value, err, ok := e.run(t.Context(), "other", other, func(context.Context) (int, error) { return 1, nil }); !ok || value != 1 {
			t.Errorf("got %d, %v, %t", value, err, ok)
		}
		close(end)
		synctest.Wait()
		if n := running.Load(); n != 2*maxErrands || queue.Len() != 2*maxErrands || e.places.Total() != 0 || e.queue.Len() != 0 {
			t.Errorf("%d errands ran, %d objects come back, %d places are taken, %d wait", n, queue.Len(), e.places.Total(), e.queue.Len())
		}
	})
}

// An object that was suspended while its errand ran must not get what was true then.
func TestErrandResultDoesNotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedErrands(t)
		var runs atomic.Int32
		work := func(context.Context) (int, error) {
			<-time.After(time.Second)
			return int(runs.Add(1)), nil
		}
		begin(t, e, "k", "a", work)
		<-time.After(48 * time.Hour)
		if value, _, ok := e.run(t.Context(), "k", requestFor("a"), work); ok {
			t.Errorf("got %d, of two days ago", value)
		}
		<-time.After(2 * time.Second)
	})
}

func TestErrandThatPanicsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedErrands(t)
		_, err, ok := e.run(t.Context(), "k", requestFor("a"), func(context.Context) (int, error) { panic("secret") })
		if !ok || !errors.Is(err, errPanic) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, %v", err, ok)
		}
	})
}

// TestOutdatedResultIsNoErrand holds that whoever asks whether there is something to join learns that it is too old: it would be begun anew by join,
// and nobody had counted that.
func TestOutdatedResultIsNoErrand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := startedErrands(t)
		work := func(context.Context) (int, error) {
			<-time.After(time.Second)
			return 1, nil
		}
		begin(t, e, "k", "a", work)
		for _, step := range []struct {
			after time.Duration
			want  bool
		}{{0, true}, {2 * time.Second, true}, {e.kept - 2*time.Second, true}, {2 * time.Second, false}} {
			<-time.After(step.after)
			if got := e.isUnderWay("k"); got != step.want {
				t.Errorf("%s later: %t", step.after, got)
			}
		}
	})
}
