// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestRetryPolicy(t *testing.T) {
	t.Parallel()
	policy := retryPolicy{base: 100 * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	for _, tc := range []struct {
		name       string
		attempt    int
		status     int
		retryAfter string
		min, max   time.Duration
	}{
		{name: "first", status: 503, min: 80 * time.Millisecond, max: 120 * time.Millisecond},
		{name: "third", attempt: 2, status: 500, min: 320 * time.Millisecond, max: 480 * time.Millisecond},
		{name: "out of attempts", attempt: maxRetries, status: 503, min: -1, max: -1},
		{name: "final status", status: 404, min: -1, max: -1},
		{name: "asked for seconds", status: 429, retryAfter: "2", min: 2 * time.Second, max: 2 * time.Second},
		{name: "asked for more than the deadline", status: 429, retryAfter: "9", min: -1, max: -1},
		{name: "asked for more than the limit", status: 503, retryAfter: "99999999999999999999", min: 80 * time.Millisecond,
			max: 120 * time.Millisecond},
		{name: "asked for the past", status: 429, retryAfter: "-5", min: 80 * time.Millisecond, max: 120 * time.Millisecond},
		{name: "not for other statuses", status: 500, retryAfter: "2", min: 80 * time.Millisecond,
			max: 120 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) { // one by one, for the deadline runs
			resp := &http.Response{StatusCode: tc.status, Header: http.Header{"Retry-After": {tc.retryAfter}}, Request: req}
			got, err := policy.Retry(tc.attempt, resp, nil)
			if err != nil || got < tc.min || got > tc.max {
				t.Errorf("wait = %s, %v; want %s to %s", got, err, tc.min, tc.max)
			}
		})
	}
}

func TestRetryAfterDate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for offset, want := range map[time.Duration]time.Duration{
		3 * time.Second: 3 * time.Second, -time.Second: 0, 48 * time.Hour: maxRetryAfter,
	} {
		resp := &http.Response{StatusCode: http.StatusServiceUnavailable,
			Header: http.Header{"Retry-After": {now.Add(offset).Format(http.TimeFormat)}}}
		if got := RetryAfter(resp, now); got != want {
			t.Errorf("in %s: wait = %s, want %s", offset, got, want)
		}
	}
}
