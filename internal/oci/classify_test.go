// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"oras.land/oras-go/v2/errdef"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// What the other side sends instead of an answer is not repeated.
func TestMalformedResponsesAreNotQuoted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"status":   "HTTP/1.1 planted-x OK\r\n\r\n",
		"no HTTP":  "planted-x 220 ready\r\n",
		"header":   "HTTP/1.1 200 OK\r\nplanted-x\r\n\r\n",
		"length":   "HTTP/1.1 200 OK\r\nContent-Length: planted-x\r\n\r\n",
		"location": "HTTP/1.1 307 Moved\r\nLocation: http://[planted-x\r\nContent-Length: 0\r\n\r\n",
		"digest":   "HTTP/1.1 200 OK\r\nDocker-Content-Digest: planted-x\r\nContent-Length: 2\r\n\r\n{}",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1024))
				_, _ = conn.Write([]byte(answer))
				_ = conn.Close()
			}
		}()
		src := Source{URL: scheme + listener.Addr().String() + "/x", Ref: Reference{Tag: "1"}, Access: Access{Insecure: true}}
		if _, err := newClient(t).Resolve(t.Context(), src); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

// A message that is another at each try is an event and a write at each.
func TestMessagesAreStableAcrossAttempts(t *testing.T) {
	t.Parallel()
	far := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	near := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port} }
	for name, failure := range map[string]func(i int) error{
		"connection": func(i int) error {
			return &net.OpError{Op: "read", Net: "tcp", Source: near(40000 + i), Addr: far, Err: syscall.ECONNRESET}
		},
		"name": func(i int) error {
			inner := &net.OpError{Op: "read", Net: "udp", Source: near(50000 + i), Addr: far, Err: syscall.ECONNREFUSED}
			return &net.DNSError{Err: inner.Error(), Name: "r.example"}
		},
		"certificate": func(i int) error {
			return x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired,
				Detail: time.Unix(int64(i), 0).String()}
		},
	} {
		first, second := explain("op", "subject", failure(1), &exchange{}), explain("op", "subject", failure(2), &exchange{})
		if first.Error() != second.Error() || first.Detail == "" {
			t.Errorf("%s: %q, then %q", name, first, second)
		}
		if name == "connection" && !strings.Contains(first.Detail, far.String()) {
			t.Errorf("%s: %q does not say where", name, first)
		}
	}
}

// A registry that says 404 of what the caller may not see says so, if at all, in the code.
func TestNotFoundWithDeniedCodeIsUnauthorized(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		kind         error
		noRepository bool
	}{
		"": {kind: ocierr.ErrNotFound}, "BLOB_UNKNOWN": {kind: ocierr.ErrNotFound}, "MANIFEST_UNKNOWN": {kind: ocierr.ErrNotFound},
		"NAME_UNKNOWN": {kind: ocierr.ErrNotFound, noRepository: true}, "UNAUTHORIZED": {kind: ocierr.ErrUnauthorized},
		"DENIED": {kind: ocierr.ErrUnauthorized},
	} {
		failure := explain("op", "subject", errdef.ErrNotFound, &exchange{notFound: code})
		if !errors.Is(failure, want.kind) || errors.Is(failure, ocierr.ErrNoRepository) != want.noRepository || failure.Hint == "" {
			t.Errorf("%q: %v", code, failure)
		}
	}
}
