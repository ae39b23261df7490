// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requeue determines when an object is reconciled again after a failure that its conditions report.
//
// controller-runtime retries a reconciliation that returns an error, and logs the error with a stack each time. This is
// right for failures of the controller itself. It is wrong for a chart that rejects its values: the condition of the
// object reports this failure, and in a large fleet such failures would fill the log. So callers must return no error
// for such a failure. They return a delay from [Delays], which grows in the same way. The package sets no conditions.
package requeue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Sooner returns the shorter of two delays until the next pass. A delay of 0 or less means none.
func Sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}

// Cause identifies a failure. A different cause resets the delays.
type Cause struct {
	// Generation is the generation of the spec that could not be applied.
	Generation int64
	// Reason is the reason of the condition that reports the failure.
	Reason string
}

// Delays computes the delays until failed reconciliations are retried. The zero value has the delays of [NewLimiter].
// It is safe for concurrent use.
type Delays struct {
	mu sync.Mutex
	// limiter is nil until the first failure.
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	causes  map[reconcile.Request]failure
}

// failure is the last reported failure of an object.
type failure struct {
	cause   Cause
	message string
}

// After returns how long to wait after a failure of an object. The wait grows with each failure in a row with the same
// cause. isNews is true if the cause or the message differs from those of the last failure.
func (d *Delays) After(object reconcile.Request, cause Cause, message string) (wait time.Duration, isNews bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limiter == nil {
		d.limiter, d.causes = NewLimiter(), map[reconcile.Request]failure{}
	}
	current := failure{cause: cause, message: message}
	known, ok := d.causes[object]
	if known.cause != cause {
		d.limiter.Forget(object)
	}
	d.causes[object] = current
	return d.limiter.When(object), !ok || known != current
}

// Forget removes the failures of an object. Call it when the object did not fail or was deleted.
func (d *Delays) Forget(object reconcile.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limiter == nil {
		return
	}
	delete(d.causes, object)
	d.limiter.Forget(object)
}

// OrError returns the result of a reconciliation in the form that controller-runtime expects: if there is an error, the
// result has no delay.
func OrError(result reconcile.Result, err error) (reconcile.Result, error) {
	if err != nil {
		result.RequeueAfter = 0
	}
	return result, err
}
