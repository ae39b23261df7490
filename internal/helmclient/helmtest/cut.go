// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmtest

import (
	"errors"
	"net/http"
	"sync"
)

// ErrCut is the error of requests that a [Cutter] rejects.
var ErrCut = errors.New("connection cut by the test: connection refused")

// Cutter is a transport that counts requests. It rejects all requests after a number of requests, or after a certain
// request.
type Cutter struct {
	// After is the number of requests that succeed; negative if there is no limit.
	After int
	// Last reports whether a request is the last that succeeds; nil if there is no such request.
	Last func(*http.Request) bool

	mu       sync.Mutex
	requests []string
}

// Wrap returns the transport; it is for rest.Config.WrapTransport.
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

// Take returns and clears the list of requests.
func (c *Cutter) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := c.requests
	c.requests = nil
	return requests
}

// RoundTripperFunc is a function that implements http.RoundTripper.
type RoundTripperFunc func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
