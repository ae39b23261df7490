// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requeue determines when an object is reconciled again after a failure that its conditions report.
//
// controller-runtime retries a reconciliation that returns an error, and logs the error with a stack each time. This is
// right for failures of the controller itself. It is wrong for a chart that rejects its values: the condition of the
// object reports this failure, and in a large fleet such failures would fill the log. So callers must return no error
// for such a failure. They return a delay from [Delay], which grows in the same way. The package sets no conditions.
package requeue

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
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

// Delay is the delay until the failed reconciliation of one object is repeated. The zero value has no failure. It is
// for one goroutine at a time.
type Delay struct {
	last     failure
	failures int
}

// failure is the last reported failure of an object.
type failure struct {
	cause   Cause
	message string
}

// After returns how long to wait after a failure. The wait grows with each failure in a row with the same cause. isNews
// is true if the cause or the message differs from those of the last failure.
func (d *Delay) After(cause Cause, message string) (wait time.Duration, isNews bool) {
	current := failure{cause: cause, message: message}
	isNews = d.failures == 0 || d.last != current
	if d.last.cause != cause {
		d.failures = 0
	}
	wait = jittered(backoff.Exponential(minDelay, maxDelay, d.failures))
	d.last, d.failures = current, d.failures+1
	return wait, isNews
}

// Forget removes the failures, because the object did not fail.
func (d *Delay) Forget() { *d = Delay{} }

// OrError returns the result of a reconciliation in the form that controller-runtime expects: if there is an error, the
// result has no delay.
func OrError(result reconcile.Result, err error) (reconcile.Result, error) {
	if err != nil {
		result.RequeueAfter = 0
	}
	return result, err
}
