// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmtest

import (
	"errors"
	"net/http"
	"sync"
)

// ErrCut is the error of requests that a [Cutter] fails.
var ErrCut = errors.New("connection cut by the test: connection refused")

// Cutter passes requests through, counts them, and from some point on fails all that follow.
type Cutter struct {
	// After is the number of requests that pass; negative for no such limit.
	After int
	// Last tells the request after which none passes; nil for no such limit.
	Last func(*http.Request) bool

	mu       sync.Mutex
	requests []string
}

// Wrap is a rest.Config.WrapTransport.
func (c *Cutter) Wrap(base http.RoundTripper) http.RoundTripper {
	return RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.requests = append(c.requests, req.Method+" "+req.URL.Path)
		cut := c.After >= 0 && len(c.requests) > c.After
		if !cut && c.Last != nil && c.Last(req) {
			c.After = 0
		}
		c.mu.Unlock()
		if cut {
			return nil, ErrCut
		}
		return base.RoundTrip(req)
	})
}

// Take returns the requests so far and begins anew.
func (c *Cutter) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := c.requests
	c.requests = nil
	return requests
}

// RoundTripperFunc is a function as an http.RoundTripper.
type RoundTripperFunc func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
