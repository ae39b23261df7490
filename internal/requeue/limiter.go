// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The delays are 1 s, 2 s, 4 s and so on, up to 5 min. If a cluster or an API server recovers after hours, its objects
// are reconciled within the longest delay.
const (
	minDelay = time.Second
	maxDelay = 5 * time.Minute
)

// Jitter is the random part of the delays after simultaneous failures, as a share of the delay.
const Jitter = 0.4

// NewLimiter returns a rate limiter for failed reconciliations. It adds jitter, so that objects that failed together
// are not reconciled at the same time again.
func NewLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return jitteredLimiter{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minDelay, maxDelay)}
}

type jitteredLimiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

// When implements workqueue.TypedRateLimiter.
func (l jitteredLimiter) When(request reconcile.Request) time.Duration {
	return jittered(l.TypedRateLimiter.When(request))
}

// jittered returns a delay with jitter.
func jittered(delay time.Duration) time.Duration {
	return wait.Jitter(time.Duration(float64(delay)*(1-Jitter/2)), Jitter/(1-Jitter/2))
}

// ControllerOptions returns the options of a controller with a number of workers.
func ControllerOptions(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: NewLimiter()}
}
