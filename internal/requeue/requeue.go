// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requeue says when an object is reconciled again after a failure that its conditions tell of.
//
// controller-runtime repeats a reconciliation that returns an error, and logs the error with a stack at each
// repetition. That suits failures of the controller. A chart that refuses its values is not one: the condition of the
// object names it, and the log of the manager of a fleet would hold nothing else. Such a reconciliation returns no
// error but the delay from [Delays], which grows in the same way.
package requeue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Cause is what a failure is told apart by. With another cause the delays begin anew.
type Cause struct {
	// Generation is that of the spec which could not be fulfilled.
	Generation int64
	// Reason is the reason of the condition that tells of the failure.
	Reason string
}

// Delays are the times until failures are tried again. The zero value has those of [NewLimiter]. They are safe for
// concurrent use.
type Delays struct {
	mu sync.Mutex
	// limiter is nil until the first failure.
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	causes  map[reconcile.Request]failure
}

// failure is what was told of an object last.
type failure struct {
	cause   Cause
	message string
}

// After returns how long to wait after a failure of an object, longer for each failure in a row of the same cause, and
// whether the failure is news: its cause or its message is another one than that of the last failure.
func (d *Delays) After(object reconcile.Request, cause Cause, message string) (wait time.Duration, isNews bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limiter == nil {
		d.limiter, d.causes = NewLimiter(), map[reconcile.Request]failure{}
	}
	told := failure{cause: cause, message: message}
	known, ok := d.causes[object]
	if known.cause != cause {
		d.limiter.Forget(object)
	}
	d.causes[object] = told
	return d.limiter.When(object), !ok || known != told
}

// Forget says that an object did not fail, or is gone.
func (d *Delays) Forget(object reconcile.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limiter == nil {
		return
	}
	delete(d.causes, object)
	d.limiter.Forget(object)
}

// OrError returns the outcome of a reconciliation as controller-runtime takes it: an error makes the delay of a result
// void.
func OrError(result reconcile.Result, err error) (reconcile.Result, error) {
	if err != nil {
		result.RequeueAfter = 0
	}
	return result, err
}
