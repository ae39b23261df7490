// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
	"time"

	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

// Options are the settings of a Pool. All are required.
type Options struct {
	// Timeout is the time without progress after which a request is cancelled.
	Timeout time.Duration
	// RetryBase is the first wait of a retry.
	RetryBase time.Duration
	// RequestsPerSecond bounds the rate of requests to one host, and MaxRequests the concurrent requests.
	RequestsPerSecond float64
	MaxRequests       int
	// Observe is called for each request, and Answer with each answer before the caller gets it.
	Observe func(RequestEvent)
	Answer  func(context.Context, *http.Response)
}

// Pool makes the HTTP clients for all hosts. They share the limits of a host. It is safe for concurrent use.
type Pool struct {
	opts   Options
	limits *limits
}

// NewPool returns a Pool.
func NewPool(opts Options) *Pool { return &Pool{opts: opts, limits: newLimits(opts)} }

// Target is the host of a client.
type Target struct {
	Connections *Connections
	// Host is the host[:port] that requests are sent to. Name is the host under which they are reported.
	Host, Name string
	// Way identifies the way to the host, User the credential. Both are hashes.
	Way, User string
	// TokenHosts are hosts, with or without port, of trusted token services.
	TokenHosts []string
	// Bytes is the memory budget of all answers, except for blobs and indexes. With nil, there is no budget.
	Bytes *bytebudget.Budget
	// KindOf returns the kind of a request for RequestEvent.
	KindOf func(*http.Request) string
}

// Client returns a client with these layers, outermost first: redirects, retries, token services, limits, observer,
// connections.
func (p *Pool) Client(target Target) *http.Client {
	policy := retryPolicy{base: p.opts.RetryBase}
	watched := &watchedTransport{
		base:    &hostTransport{Connections: target.Connections, registry: target.Host, trusted: target.TokenHosts},
		timeout: p.opts.Timeout, observe: p.opts.Observe, answer: p.opts.Answer, registry: target.Name,
		bytes: target.Bytes, kindOf: target.KindOf,
	}
	limited := &limitedTransport{base: watched, limits: p.limits, way: target.Way, user: target.User}
	return &http.Client{
		Transport: &retry.Transport{
			Base:   &tokenTransport{base: limited, trusted: target.TokenHosts},
			Policy: func() retry.Policy { return policy },
		},
		CheckRedirect: checkRedirect,
	}
}
