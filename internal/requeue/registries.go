// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"errors"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

const (
	// MaxResolveRequest bounds the value of the annotation that asks to resolve, in characters.
	MaxResolveRequest = 64

	// IntervalJitter spreads the checks of many HelmOps: each waits up to this share longer than its interval.
	IntervalJitter = 0.1

	// MinResolveRetry and maxResolveRetry bound the wait after a failed resolution. It doubles with each failure, up to
	// the interval. A registry that is down for hours is asked every 5 minutes at least and found again within them.
	MinResolveRetry = 5 * time.Second

	maxResolveRetry = 5 * time.Minute
)

// RetryAfter is how long a registry asks to be left alone.
func RetryAfter(err error) time.Duration {
	var failure *oci.Error
	if errors.As(err, &failure) {
		return failure.RetryAfter
	}
	return 0
}

// ResolveRetry is the wait after a number of failures in a row: 5 s, 10 s, 20 s and so on, up to 5 min.
func ResolveRetry(failures int) time.Duration {
	return backoff.Exponential(MinResolveRetry, maxResolveRetry, failures-1)
}
