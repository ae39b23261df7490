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

// Options are the settings of a Pool. All fields are required.
type Options struct {
	// Timeout is the time without progress after which a request is cancelled.
	Timeout time.Duration
	// RetryBase is the first wait of a retry.
	RetryBase time.Duration
	// RequestsPerSecond limits the rate of requests to one host. MaxRequests limits the concurrent requests.
	RequestsPerSecond float64
	MaxRequests       int
	// Observe is called for each request. Answer is called for each response, before the caller gets it.
	Observe func(RequestEvent)
	Answer  func(context.Context, *http.Response)
}

// Pool makes HTTP clients for all hosts. Clients of the same host share its limits. It is safe for concurrent use.
type Pool struct {
	opts   Options
	limits *limits
}

// NewPool returns a Pool.
func NewPool(opts Options) *Pool { return &Pool{opts: opts, limits: newLimits(opts)} }

// Target describes a client: its host, its connections and its credential.
type Target struct {
	Connections *Connections
	// Host is host[:port] of the requests. Name is the host name in RequestEvent.
	Host, Name string
	// Way identifies the way to the host. User identifies the credential. Both are hashes.
	Way, User string
	// TokenHosts are the hosts of trusted token services, with or without port. It must be empty if the caller adds a
	// credential to the requests: otherwise a redirect of the host could send the credential to a token service.
	TokenHosts []string
	// Bytes is the memory budget for all responses, except blobs and indexes. Nil means no budget.
	Bytes *bytebudget.Budget
	// KindOf returns the kind of a request, for RequestEvent.
	KindOf func(*http.Request) string
}

// Client returns a client. It has these layers, from the outermost to the innermost: redirects, retries, token
// services, limits, observer, connections.
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
