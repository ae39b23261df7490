// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

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

// TestMessagesAreStableAcrossAttempts checks that a repeated failure has the same message. Each new message would cause
// an Event and a status write.
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
		first, second := explain("op", "subject", failure(1), &Exchange{}), explain("op", "subject", failure(2), &Exchange{})
		if first.Error() != second.Error() || first.Detail == "" {
			t.Errorf("%s: %q, then %q", name, first, second)
		}
		if name == "connection" && !strings.Contains(first.Detail, far.String()) {
			t.Errorf("%s: %q does not say where", name, first)
		}
	}
}

// TestNotFoundWithDeniedCodeIsUnauthorized checks the error code of a 404. Some registries answer 404 to callers
// without access, and only the code shows the reason.
func TestNotFoundWithDeniedCodeIsUnauthorized(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		kind         error
		noRepository bool
	}{
		"": {kind: ocierr.ErrNotFound}, "BLOB_UNKNOWN": {kind: ocierr.ErrNotFound},
		"MANIFEST_UNKNOWN": {kind: ocierr.ErrNotFound},
		"NAME_UNKNOWN":     {kind: ocierr.ErrNotFound, noRepository: true}, "UNAUTHORIZED": {kind: ocierr.ErrUnauthorized},
		"DENIED": {kind: ocierr.ErrUnauthorized},
	} {
		failure := explain("op", "subject", errdef.ErrNotFound, &Exchange{notFound: code})
		if !errors.Is(failure, want.kind) || errors.Is(failure, ocierr.ErrNoRepository) != want.noRepository ||
			failure.Hint == "" {
			t.Errorf("%q: %v", code, failure)
		}
	}
}
