// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"errors"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// MaxResolveRequest is the maximum length, in characters, of the value of the annotation resolve-requested-at.
	MaxResolveRequest = 64

	// IntervalJitter spreads the lookups of many HelmOps: each waits longer than its interval, by up to this share.
	IntervalJitter = 0.1

	// MinResolveRetry and maxResolveRetry bound the wait after a failed lookup. The wait doubles with each failure, up to
	// the interval. A registry that fails for hours is tried at least every 5 minutes. So HelmOp finds within this time
	// that the registry works again.
	MinResolveRetry = 5 * time.Second

	maxResolveRetry = 5 * time.Minute
)

// RetryAfter returns how long a registry asks clients to wait; 0 if it does not ask.
func RetryAfter(err error) time.Duration {
	var failure *ocierr.Error
	if errors.As(err, &failure) {
		return failure.RetryAfter
	}
	return 0
}

// ResolveRetry returns the wait after a number of failures in a row: 5 s, 10 s, 20 s and so on, up to 5 min.
func ResolveRetry(failures int) time.Duration {
	return backoff.Exponential(MinResolveRetry, maxResolveRetry, failures-1)
}
