// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// maxRetries is the maximum number of retries of one request. It limits the load on a failing registry.
	maxRetries = 3
	// maxRetryWait is the maximum wait between two attempts. If a registry asks for a longer wait, the caller gets the
	// error and decides.
	maxRetryWait = 10 * time.Second
	// maxRetryAfter is the maximum of Error.RetryAfter.
	maxRetryAfter = time.Hour
)

// retryPolicy retries temporary failures: 408, 429, 5xx, and connections that broke during a request. It implements
// retry.Policy.
type retryPolicy struct {
	// base is the first wait. The wait doubles with each attempt.
	base time.Duration
}

// Retry returns the wait before the next attempt. It returns -1 if the caller should get the response.
func (p retryPolicy) Retry(attempt int, resp *http.Response, err error) (time.Duration, error) {
	if attempt >= maxRetries {
		return -1, nil
	}
	wait := p.backoff(attempt)
	if err != nil {
		if ocierr.IsBrokenConnection(err) {
			return wait, nil
		}
		return -1, nil
	}
	if hasAlternative(resp.Request.Context()) {
		return -1, nil // the next host is the retry
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return -1, nil
	}
	wait = max(wait, RetryAfter(resp, time.Now()))
	if wait > maxRetryWait {
		return -1, nil
	}
	// A wait beyond the deadline would end with a timeout, and the caller would not get this response.
	if deadline, ok := resp.Request.Context().Deadline(); ok && time.Until(deadline) <= wait {
		return -1, nil
	}
	return wait, nil
}

// backoff returns the wait before a retry. The wait doubles with each attempt. It has a jitter of 20 % in both
// directions, so many clients do not retry at the same time.
func (p retryPolicy) backoff(attempt int) time.Duration {
	wait := p.base << attempt
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}

// RetryAfter returns the Retry-After of a 429 or 503. The header has seconds or a date.
func RetryAfter(resp *http.Response, now time.Time) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(0, min(seconds, int(maxRetryAfter/time.Second)))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, min(at.Sub(now), maxRetryAfter))
	}
	return 0
}
