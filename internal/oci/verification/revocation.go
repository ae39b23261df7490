// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/notaryproject/notation-core-go/revocation"
	"github.com/notaryproject/notation-core-go/revocation/crl"
	"github.com/notaryproject/notation-core-go/revocation/purpose"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	// maxRevocationMiB bounds one response of a revocation service. The library reads up to 32 MiB of a CRL, and parses
	// the CRL before it checks the signature of the CRL.
	maxRevocationMiB      = 1
	maxRevocationResponse = maxRevocationMiB << 20
	// memoryPerByte is the memory for one byte of a CRL while it is read and parsed. Measured for the worst case, an
	// issuer with many attributes: 27. A real CRL needs 14.
	memoryPerByte = 28
	// crlTimeout bounds the download of one CRL and its delta, because both hold memory meanwhile.
	crlTimeout = 20 * time.Second
	// maxRevocationRequests bounds the requests of one verification, with redirects. A certificate usually names one
	// OCSP server and one CRL.
	maxRevocationRequests = 100
	// concurrentRevocationRequests bounds the concurrent requests of one verification. The library checks all
	// certificates of a chain at once.
	concurrentRevocationRequests = 4
)

// revocationCheck sends the requests of the revocation checks of one verification. The author of the policy chooses the
// authorities, and their certificates choose the URLs. So revocationCheck bounds the number, the concurrency and the
// size of the responses, and reserves memory before a CRL is read. Its client refuses local addresses.
type revocationCheck struct {
	registry *oci.Client
	base     http.RoundTripper
	client   *http.Client
	lists    *crl.HTTPFetcher

	sent  atomic.Int32
	slots chan struct{}

	mu    sync.Mutex
	cause *ocierr.Error
}

// newRevocationCheck returns a revocationCheck that sends its requests with a client.
func newRevocationCheck(registry *oci.Client, client *http.Client) (r *revocationCheck, err error) {
	r = &revocationCheck{registry: registry, base: client.Transport,
		slots: make(chan struct{}, concurrentRevocationRequests)}
	r.client = &http.Client{Transport: r, Timeout: client.Timeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			return r.note(client.CheckRedirect(req, via))
		}}
	r.lists, err = crl.NewHTTPFetcher(r.client)
	return r, err
}

// validator returns the library's validator for certificates with a purpose.
func (r *revocationCheck) validator(of purpose.Purpose) (revocation.Validator, error) {
	return revocation.NewWithOptions(revocation.Options{OCSPHTTPClient: r.client, CRLFetcher: r, CertChainPurpose: of})
}

// RoundTrip implements http.RoundTripper.
func (r *revocationCheck) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.send(req)
	return resp, r.note(err)
}

// send sends a request. The request holds its slot until its body is closed.
func (r *revocationCheck) send(req *http.Request) (*http.Response, error) {
	if r.sent.Add(1) > maxRevocationRequests {
		return nil, &ocierr.Error{Op: opVerify, Kind: ocierr.ErrTooLarge,
			Detail: fmt.Sprintf("the check needs more than %d requests", maxRevocationRequests)}
	}
	ctx := req.Context()
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release := sync.OnceFunc(func() { <-r.slots })
	sent := req.Clone(ctx)
	sent.Close = true // each verification may use other hosts, so idle connections would add up
	resp, err := r.base.RoundTrip(sent)
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = transport.OnClose(resp.Body, release)
	if err := bound(ctx, resp); err != nil {
		_ = resp.Body.Close() // the response is not used
		return nil, err
	}
	return resp, nil
}

// bound limits the size of a response, and reserves memory for a CRL.
func bound(ctx context.Context, resp *http.Response) error {
	size := resp.ContentLength
	if size > maxRevocationResponse {
		return &http.MaxBytesError{Limit: maxRevocationResponse}
	}
	if size < 0 {
		size = maxRevocationResponse
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxRevocationResponse)
	memory, ok := ctx.Value(crlMemoryKey{}).(*crlMemory)
	if !ok || resp.StatusCode != http.StatusOK {
		return nil // OCSP responses have at most 20 KiB, and the library does not read other statuses
	}
	return memory.reserve(ctx, size*memoryPerByte)
}

// Fetch implements crl.Fetcher. It keeps the memory for a CRL and its delta until they are parsed, and for the time
// that the library needs to check them.
func (r *revocationCheck) Fetch(ctx context.Context, url string) (*crl.Bundle, error) {
	ctx, cancel := context.WithTimeout(ctx, crlTimeout)
	defer cancel()
	memory := &crlMemory{registry: r.registry}
	defer func() { memory.lease.ReleaseSoon() }()
	lists, err := r.lists.Fetch(context.WithValue(ctx, crlMemoryKey{}, memory), url)
	return lists, r.note(err)
}

type crlMemoryKey struct{}

// crlMemory is the reserved memory for a CRL and its delta.
type crlMemory struct {
	registry *oci.Client
	lease    *bytebudget.Lease
	bytes    int64
}

// reserve reserves more bytes. Only the first call waits, so checks do not wait for each other.
func (m *crlMemory) reserve(ctx context.Context, n int64) (err error) {
	m.bytes += n
	if m.lease != nil {
		return m.lease.Grow(m.bytes)
	}
	m.lease, err = m.registry.Reserve(ctx, m.bytes)
	return err
}

// note records the first failure that the limits or the connection explain, and returns the error unchanged. The
// library's own message only says that the status of the certificate is unknown.
func (r *revocationCheck) note(err error) error {
	if err == nil {
		return nil
	}
	cause := &ocierr.Error{Op: opVerify}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &cause):
	case errors.As(err, &tooLarge):
		cause.Kind, cause.Detail = ocierr.ErrTooLarge,
			fmt.Sprintf("a response has more than %d MiB, which is the limit", maxRevocationMiB)
	case errors.Is(err, bytebudget.ErrTooLarge):
		cause.Kind, cause.Detail = ocierr.ErrTooLarge, "a CRL and its delta need more memory than one namespace may use"
	case errors.Is(err, bytebudget.ErrExhausted):
		cause.Kind, cause.Detail = ocierr.ErrRateLimited, "too much other content is being read"
	case !transport.Explain(cause, err):
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == nil {
		r.cause = cause
	}
	return err
}

// explain returns a refusal with the cause that was recorded since the last call, if it is about the revocation. The
// error means that the check could not be made now.
func (r *revocationCheck) explain(refused *refusal, subject string) (*refusal, error) {
	r.mu.Lock()
	cause := r.cause
	r.cause = nil
	r.mu.Unlock()
	switch {
	case cause == nil || refused == nil || refused.close != wrongProof:
		return refused, nil
	case errors.Is(cause, ocierr.ErrRateLimited):
		return nil, &ocierr.Error{Op: opVerify, Subject: subject, Kind: cause.Kind, RetryAfter: cause.RetryAfter,
			Detail: "the revocation of its certificates could not be checked: " + cause.Detail}
	}
	return refuse(wrongProof, "revocation service: %s; %s", cause.Detail, refused.why), nil
}
