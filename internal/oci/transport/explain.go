// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	hintClientCert = "provide a client certificate that the registry trusts, with its key"
	hintHandshake  = "provide a client certificate if the registry requires one; otherwise check which versions of TLS " +
		"it supports"
	hintLocal = "use an address that other machines can reach, or ask the operator of the manager to add the " +
		"registry to its registries file"
	// The registries file does not permit these addresses.
	hintLinkLocal = "use a registry that redirects only to addresses that other machines can reach"

	hintCA    = "provide the registry's CA certificate, or fix the certificate"
	hintProxy = "check the proxy's address and credentials, and that it allows connections to the registry"
)

// Explain fills in an error if a connection failed because of a refused address or redirect, the proxy, or TLS. It
// returns false for other errors.
func Explain(out *ocierr.Error, err error) bool {
	switch {
	case errors.Is(err, errLinkLocal):
		out.Kind, out.Detail, out.Hint = ocierr.ErrAddressRefused, errLinkLocal.Error(), hintLinkLocal
	case errors.Is(err, errLocal):
		out.Kind, out.Detail, out.Hint = ocierr.ErrAddressRefused, errLocal.Error(), hintLocal
	case errors.Is(err, errDowngrade):
		out.Kind, out.Detail = ocierr.ErrTLS, errDowngrade.Error()
	case errors.Is(err, errRedirects):
		out.Kind, out.Detail = ocierr.ErrUnexpected, errRedirects.Error()
	default:
		return fromProxy(out, err) || fromTLS(out, err)
	}
	return true
}

// proxyAnswer is the status of a response that came from a proxy and not from the registry.
type proxyAnswer int

func (s proxyAnswer) Error() string {
	return fmt.Sprintf("the proxy answered %d", int(s))
}

// checkConnect implements http.Transport.OnProxyConnectResponse. Without it, the text of the error would be the text in
// the proxy's response.
func checkConnect(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return proxyAnswer(resp.StatusCode)
	}
	return nil
}

// fromProxy fills in the error if the proxy caused it. It returns false for other errors.
func fromProxy(e *ocierr.Error, err error) bool {
	var answer proxyAnswer
	var network *net.OpError
	switch {
	case errors.As(err, &answer) && answer == http.StatusProxyAuthRequired:
		e.Kind, e.Hint = ocierr.ErrUnauthorized, hintProxy
		e.Detail = "the proxy requires credentials or refuses the given ones"
	case errors.As(err, &answer):
		e.Kind, e.Detail, e.Hint = ocierr.ErrUnreachable, answer.Error(), hintProxy
	case errors.As(err, &network) && (network.Op == "proxyconnect" || strings.HasPrefix(network.Op, "socks ")):
		fromDial(e, network.Err)
		e.Kind, e.Detail, e.Hint = ocierr.ErrUnreachable, "the proxy: "+e.Detail, hintProxy
	default:
		return false
	}
	return true
}

// fromDial fills in the reason for a failed connection.
func fromDial(e *ocierr.Error, err error) {
	if !fromTLS(e, err) && !e.FromNetwork(err) {
		e.Detail = ocierr.SafeText(err)
	}
}

// fromTLS fills in the error if the TLS handshake failed. It returns false for other errors.
func fromTLS(e *ocierr.Error, err error) bool {
	var (
		verification *tls.CertificateVerificationError
		unknown      x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
		network      *net.OpError
	)
	switch {
	case errors.As(err, &unknown):
		e.Detail, e.Hint = "the certificate is signed by an unknown authority", hintCA
	case errors.As(err, &hostname):
		e.Detail, e.Hint = "the certificate is for another host name", hintCA
	case errors.As(err, &invalid), errors.As(err, &verification):
		e.Detail, e.Hint = ocierr.SafeText(err), hintCA
		if invalid.Reason == x509.Expired {
			e.Detail = "the certificate has expired or is not valid yet" // not the library's message, which contains the time
		}
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.Detail, e.Hint = "the registry does not use TLS", "set insecure to use plain HTTP"
	case errors.As(err, &network) && network.Op == "remote error": // crypto/tls does not export its type of alerts
		fromAlert(e, ocierr.SafeText(network.Err))
	default:
		return false
	}
	e.Kind = ocierr.ErrTLS
	return true
}

// fromAlert fills in the error from the text of a TLS alert.
func fromAlert(e *ocierr.Error, text string) {
	e.Detail = "the registry ended the handshake: " + text
	switch {
	case strings.Contains(text, "certificate required"):
		e.Detail, e.Hint = "the registry requires a client certificate, and there is none that it accepts", hintClientCert
	case strings.Contains(text, "certificate"):
		e.Hint = hintClientCert
	case strings.Contains(text, "handshake failure"): // TLS 1.2 has no alert for a missing certificate
		e.Hint = hintHandshake
	}
}
