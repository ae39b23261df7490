// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

// metadataURL is the address of the metadata service of several clouds.
const metadataURL = "http://169.254.169.254/latest"

// revocationService is a server that answers requests about revocation, and counts them.
type revocationService struct {
	*httptest.Server
	asked atomic.Int32
}

func newRevocationService(t *testing.T, answer http.HandlerFunc) *revocationService {
	t.Helper()
	s := &revocationService{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// verifyRevocable signs an artifact with a notary, and verifies it at the level "strict". The requests to the services
// are sent.
func (b *bed) verifyRevocable(notary *signing.Notary) (Result, error) {
	b.t.Helper()
	artifact := b.push("artifact")
	check(b.t, notary.Sign(b.t.Context(), artifact))
	access := b.access()
	access.Trusted = true // the registry of the test has a local address
	v := b.verifier(func(o *Options) { o.httpClient = nil })
	policy := notationPolicy(notary, signing.TrustAnyone("strict"))
	return v.Verify(b.t.Context(), b.url(), artifact.Digest(), access, policy)
}

func revocable(services signing.Services) *signing.Notary {
	return signing.NewRevocableNotary("jane", time.Now().Add(time.Hour), services)
}

// TestRevocationServicesAreGuarded checks that the URLs in a tenant's certificates do not make the manager send
// requests to its own machine or cloud, also by redirects.
func TestRevocationServicesAreGuarded(t *testing.T) {
	t.Parallel()
	const local, linkLocal = "loopback and link-local addresses", "refused a link-local address"
	redirected := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }
	}
	ocsp := func(url string) signing.Services { return signing.Services{OCSP: []string{url}} }
	crls := func(url string) signing.Services { return signing.Services{CRLs: []string{url}} }
	for _, tc := range []struct {
		name     string
		services func(url string) signing.Services
		answer   http.HandlerFunc
		url      string // default: the URL of the service
		allowed  bool   // --allow-local-addresses
		says     string
		asked    int32
	}{
		{name: "CRL at loopback", services: crls, says: local},
		{name: "OCSP at loopback", services: ocsp, says: local},
		{name: "CRL at the cloud's own", services: crls, url: metadataURL, says: local},
		{name: "OCSP at the cloud's own", services: ocsp, url: metadataURL, says: local},
		{name: "CRL at the cloud's own, local allowed", services: crls, url: metadataURL, allowed: true, says: linkLocal},
		{name: "CRL redirects to the cloud's own", services: crls, answer: redirected(metadataURL), allowed: true,
			says: linkLocal, asked: 1},
		{name: "OCSP redirects to the cloud's own", services: ocsp, answer: redirected(metadataURL), allowed: true,
			says: linkLocal, asked: 1},
		{name: "CRL redirects in circles", services: crls, answer: redirected("/"), allowed: true,
			says: "more than 5 redirects", asked: 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, true, func(o *oci.Options) { o.RefuseLocal = !tc.allowed })
			service := newRevocationService(t, func(w http.ResponseWriter, r *http.Request) {
				if tc.answer != nil {
					tc.answer(w, r)
				}
			})
			url := tc.url
			if url == "" {
				url = service.URL
			}
			_, err := b.verifyRevocable(revocable(tc.services(url)))
			wantError(t, err, ErrUntrusted, tc.says)
			if asked := service.asked.Load(); asked != tc.asked {
				t.Errorf("%d requests were sent, want %d", asked, tc.asked)
			}
		})
	}
}

// TestServicesHaveGuardedClient checks the client for all services, which also downloads the root of Sigstore.
func TestServicesHaveGuardedClient(t *testing.T) {
	t.Parallel()
	b := newBed(t, true, func(o *oci.Options) { o.RefuseLocal = true })
	service := newRevocationService(t, func(http.ResponseWriter, *http.Request) {})
	client := must(Options{Registry: b.client}.client())(t)
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, service.URL, nil))(t)
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, dialguard.ErrRefused) || service.asked.Load() > 0 || client.Timeout == 0 {
		t.Errorf("%d requests, timeout %s: %v", service.asked.Load(), client.Timeout, err)
	}
}

func TestRevocationLists(t *testing.T) {
	t.Parallel()
	const tooLarge = "a response has more than 1 MiB, which is the limit"
	large := slices.Repeat([]byte("x"), maxRevocationResponse+1)
	for _, tc := range []struct {
		name      string
		isRevoked bool
		sent      []byte // default: the CRL
		chunked   bool
		says      string // empty means that the signature is valid
	}{
		{name: "not revoked"},
		{name: "not revoked, size unknown", chunked: true},
		{name: "revoked", isRevoked: true, says: "is revoked"},
		{name: "too large", sent: large, says: tooLarge},
		{name: "too large, size unknown", sent: large, chunked: true, says: tooLarge},
		{name: "malformed", sent: []byte("planted"), says: "status is unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, true)
			sent := tc.sent
			service := newRevocationService(t, func(w http.ResponseWriter, _ *http.Request) {
				if !tc.chunked {
					w.Header().Set("Content-Length", strconv.Itoa(len(sent)))
				}
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				_, _ = w.Write(sent)
			})
			notary := revocable(signing.Services{CRLs: []string{service.URL}})
			if sent == nil {
				sent = notary.CRL(tc.isRevoked)
			}
			result, err := b.verifyRevocable(notary)
			if tc.says == "" {
				wantSigners(t, result, err, notary.Subject())
				return
			}
			wantError(t, err, ErrUntrusted, tc.says)
		})
	}
}

// TestRevocationListsReserveMemory checks that the memory for a CRL is reserved before the CRL is read.
func TestRevocationListsReserveMemory(t *testing.T) {
	t.Parallel()
	budget := bytebudget.New(64 << 20)
	b := newBed(t, true, func(o *oci.Options) { o.Bytes = budget })
	var sent []byte
	service := newRevocationService(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(sent)))
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for budget.InUse() < int64(len(sent)*memoryPerByte) {
			if r.Context().Err() != nil {
				t.Error("the memory was not reserved")
				return
			}
			runtime.Gosched()
		}
		_, _ = w.Write(sent)
	})
	notary := revocable(signing.Services{CRLs: []string{service.URL}})
	sent = notary.CRL(false)
	result, err := b.verifyRevocable(notary)
	wantSigners(t, result, err, notary.Subject())
	for budget.InUse() > 0 && t.Context().Err() == nil {
		runtime.Gosched()
	}

	// A delta takes more memory, and does not wait for it.
	memory := &crlMemory{registry: b.client}
	check(t, memory.reserve(t.Context(), 1<<20))
	check(t, memory.reserve(t.Context(), 2<<20))
	err = memory.reserve(t.Context(), budget.Total())
	if memory.lease.Held() != 3<<20 || !errors.Is(err, bytebudget.ErrTooLarge) {
		t.Errorf("%d bytes are held, %v", memory.lease.Held(), err)
	}
	memory.lease.Release()

	// A CRL waits while its tenant's share is in use. After the deadline, this does not count as a refused signature.
	lease := must(budget.Acquire(t.Context(), bytebudget.Owner{}, budget.Total()))(t)
	defer lease.Release()
	requests := must(newRevocationCheck(b.client, must(Options{Registry: b.client}.client())(t)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for budget.Waiting() == 0 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		cancel()
	}()
	_, err = requests.Fetch(ctx, service.URL)
	if !errors.Is(err, bytebudget.ErrExhausted) {
		t.Errorf("got %v", err)
	}
	_, err = requests.explain(refuse(wrongProof, "unknown"), "artifact")
	wantError(t, err, ocierr.ErrRateLimited, "could not be checked: too much other content is being read")
	again, err := requests.explain(refuse(wrongProof, "unknown"), "artifact")
	if err != nil || again.why != "unknown" {
		t.Errorf("the cause was reported again: %v, %v", again, err)
	}
}

// TestRevocationRequestsAreBounded checks that the number of URLs in certificates does not matter.
func TestRevocationRequestsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	service := newRevocationService(t, http.NotFound)
	var servers []string
	for i := range maxRevocationRequests + 50 {
		servers = append(servers, fmt.Sprintf("%s/%d", service.URL, i))
	}
	_, err := b.verifyRevocable(revocable(signing.Services{OCSP: servers}))
	wantError(t, err, ErrUntrusted, "the check needs more than 100 requests")
	if asked := service.asked.Load(); asked != maxRevocationRequests {
		t.Errorf("%d requests were sent", asked)
	}
}

// TestRevocationRequestsHaveSlots checks that responses whose body is open hold their slots.
func TestRevocationRequestsHaveSlots(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	requests := must(newRevocationCheck(b.client, &http.Client{
		Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			if !req.Close {
				t.Error("the connection stays open")
			}
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: req}, nil
		}),
	}))(t)
	send := func(ctx context.Context) (body io.Closer, err error) {
		resp, err := requests.RoundTrip(must(http.NewRequestWithContext(ctx, http.MethodGet, "http://ocsp.test", nil))(t))
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	var first io.Closer
	for range concurrentRevocationRequests {
		first = must(send(t.Context()))(t)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := send(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a request was sent without a slot: %v", err)
	}
	check(t, first.Close())
	check(t, must(send(t.Context()))(t).Close())
}
