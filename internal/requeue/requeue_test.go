// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestDelays(t *testing.T) {
	t.Parallel()
	d := &Delays{
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 4*time.Second),
		causes:  map[reconcile.Request]failure{},
	}
	a := reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}}
	b := reconcile.Request{NamespacedName: types.NamespacedName{Name: "b"}}
	invalid, refused := Cause{Generation: 1, Reason: "ValuesInvalid"}, Cause{Generation: 1, Reason: "ChartFailed"}
	for i, step := range []struct {
		object  reconcile.Request
		cause   Cause
		message string
		forget  bool
		wait    time.Duration
		isNews  bool
	}{
		{object: a, cause: invalid, message: "one", wait: time.Second, isNews: true},
		{object: a, cause: invalid, message: "one", wait: 2 * time.Second},
		{object: b, cause: invalid, message: "one", wait: time.Second, isNews: true},
		{object: a, cause: invalid, message: "two", wait: 4 * time.Second, isNews: true},
		{object: a, cause: invalid, message: "two", wait: 4 * time.Second},
		{object: a, cause: refused, message: "two", wait: time.Second, isNews: true},
		{object: a, cause: Cause{Generation: 2, Reason: "ChartFailed"}, message: "two", wait: time.Second, isNews: true},
		{object: a, cause: Cause{Generation: 2, Reason: "ChartFailed"}, message: "two", forget: true, wait: time.Second,
			isNews: true},
		{object: b, cause: invalid, message: "one", wait: 2 * time.Second},
	} {
		if step.forget {
			d.Forget(step.object)
		}
		if wait, isNews := d.After(step.object, step.cause, step.message); wait != step.wait || isNews != step.isNews {
			t.Errorf("step %d: %s, news %t, want %s, %t", i, wait, isNews, step.wait, step.isNews)
		}
	}
	d.Forget(a)
	d.Forget(b)
	if len(d.causes) != 0 {
		t.Errorf("%d objects are remembered", len(d.causes))
	}
}

func TestOrError(t *testing.T) {
	t.Parallel()
	given := reconcile.Result{RequeueAfter: time.Minute, Priority: new(7)}
	if got, err := OrError(given, nil); err != nil || got != given {
		t.Errorf("%v, %v", got, err)
	}
	got, err := OrError(given, errors.New("no"))
	if err == nil || got.RequeueAfter != 0 || got.Priority != given.Priority {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRetriesSpread(t *testing.T) {
	t.Parallel()
	limiter := NewLimiter()
	different := map[time.Duration]bool{}
	for i := range 100 {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint(i)}}
		limiter.When(request)
		delay := limiter.When(request)
		if delay < 1600*time.Millisecond || delay > 2400*time.Millisecond {
			t.Fatalf("the second try after %s, want about 2 s", delay)
		}
		different[delay] = true
	}
	if len(different) < 90 {
		t.Errorf("only %d different delays", len(different))
	}
}
