// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestDelays(t *testing.T) {
	t.Parallel()
	var a, b Delay
	invalid, refused := Cause{Generation: 1, Reason: "ValuesInvalid"}, Cause{Generation: 1, Reason: "ChartFailed"}
	for i, step := range []struct {
		object  *Delay
		cause   Cause
		message string
		forget  bool
		wait    time.Duration
		isNews  bool
	}{
		{object: &a, cause: invalid, message: "one", wait: time.Second, isNews: true},
		{object: &a, cause: invalid, message: "one", wait: 2 * time.Second},
		{object: &b, cause: invalid, message: "one", wait: time.Second, isNews: true},
		{object: &a, cause: invalid, message: "two", wait: 4 * time.Second, isNews: true},
		{object: &a, cause: invalid, message: "two", wait: 8 * time.Second},
		{object: &a, cause: refused, message: "two", wait: time.Second, isNews: true},
		{object: &a, cause: Cause{Generation: 2, Reason: "ChartFailed"}, message: "two", wait: time.Second, isNews: true},
		{object: &a, cause: Cause{Generation: 2, Reason: "ChartFailed"}, message: "two", forget: true, wait: time.Second,
			isNews: true},
		{object: &b, cause: invalid, message: "one", wait: 2 * time.Second},
	} {
		if step.forget {
			step.object.Forget()
		}
		wait, isNews := step.object.After(step.cause, step.message)
		if wait < step.wait*8/10 || wait > step.wait*12/10 || isNews != step.isNews {
			t.Errorf("step %d: %s, news %t, want %s, %t", i, wait, isNews, step.wait, step.isNews)
		}
	}
	for range 100 {
		if wait, _ := a.After(invalid, "one"); wait > maxDelay*12/10 {
			t.Fatalf("wait %s", wait)
		}
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
