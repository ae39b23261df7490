// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// maxDetail bounds the text of a library's error in Error.Detail, in bytes.
const maxDetail = 200

const (
	hintNone     = "there are no credentials for this registry: add an entry for it to a Secret"
	hintGiven    = "check that the account in the Secret's entry for this registry may pull from the repository"
	hintIdentity = "check that the manager's identity at the cloud provider may pull from the repository"
	hintDefault  = "the manager's own credentials were used: ask its operator, or add credentials to a Secret"
	hintRealm    = "it must have a public address or the registry's own host name, or be listed in the manager's " +
		"--registry-token-hosts"
	hintProtocol   = "check that the URL is that of a registry, with the right protocol and port"
	hintOperator   = "ask the operator of the manager"
	hintClientCert = "provide a client certificate that the registry trusts, with its key"
	hintHandshake  = "provide a client certificate if the registry requires one; otherwise check which versions of TLS " +
		"it supports"
	hintLocal = "use an address that other machines can reach, or ask the operator of the manager to add the " +
		"registry to its registries file"
	hintAlgorithm = "push it with a sha256 digest"
	hintReference = "check the URL and the reference; some registries return this when credentials are missing"
	hintCA        = "provide the registry's CA certificate, or fix the certificate"
	hintReach     = "check the registry, the network and the proxy settings"
)

// errorCode matches the error codes of the distribution specification. Other text is not shown,
// because a registry may write anything.
var errorCode = regexp.MustCompile(`^[A-Z][A-Z_]{2,39}$`)

// urlText matches URLs in messages of libraries. The queries of redirects and token requests
// contain signatures and account names.
var urlText = regexp.MustCompile(`[a-z]+://[^\s"]+`)

// ownAddress matches the local address of a connection in messages of the system. Its port differs
// at each attempt, and a changed message would cause one more Event and status write.
var ownAddress = regexp.MustCompile(`[^\s"]+->`)

// classify turns an error of the protocol library into an *Error. It copies only the parts that are
// safe to show.
func classify(op, subject string, err error, x *exchange) *Error {
	out := explain(op, subject, err, x)
	if route := x.route(); !strings.HasSuffix(out.Detail, route) {
		if out.Detail != "" {
			route = "; " + route
		}
		out.Detail += route
	}
	return out
}

// explain is classify for a single host, without the other hosts of the exchange.
func explain(op, subject string, err error, x *exchange) *Error {
	var own *Error
	if errors.As(err, &own) {
		out := *own
		if out.Op == "" { // created below the protocol library, which has neither operation nor subject
			out.Op, out.Subject = op, subject
		}
		return &out
	}
	out := &Error{Op: op, Subject: subject, Kind: ErrUnexpected}
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, &answer):
		out.fromStatus(answer, x)
	case errors.Is(err, errdef.ErrNotFound):
		out.fromNotFound(x)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		out.Kind, out.Detail, out.Hint = ErrUnauthorized, "the registry requires credentials, and there are none",
			x.credentialHint()
	case strings.Contains(err.Error(), "missing username or password"):
		// The library has no error value for this.
		out.Kind, out.Detail = ErrInvalidAccess,
			"the registry requires a username and a password, and the credential does not have both"
	case strings.Contains(err.Error(), "bearer realm"):
		// The library has no error value for this. It refuses token services at internal addresses,
		// because a registry could use them to make the manager send requests there.
		out.Kind, out.Detail, out.Hint = ErrUnauthorized, "the address of the registry's token service is refused", hintRealm
	case errors.Is(err, errLinkLocal):
		out.Detail = errLinkLocal.Error()
	case errors.Is(err, errLocal):
		out.Kind, out.Detail, out.Hint = ErrInvalidAccess, errLocal.Error(), hintLocal
	case errors.Is(err, bytebudget.ErrTooLarge):
		out.Kind, out.Detail = ErrTooLarge, "the response needs more memory than one registry may use"
	case errors.Is(err, bytebudget.ErrExhausted):
		return noRoom(op, subject)
	case errors.Is(err, context.Canceled):
		out.Kind = context.Canceled
	case out.fromProxy(err), out.fromTLS(err), out.fromContent(err), out.fromNetwork(err):
	case errors.Is(err, errRedirects):
		out.Detail = errRedirects.Error()
	default:
		// Texts of libraries may contain text that the other side sent.
		out.Detail, out.Hint = "the response is not that of a registry", hintProtocol
	}
	return out
}

// fromStatus fills in the error from an HTTP status.
func (e *Error) fromStatus(answer *errcode.ErrorResponse, x *exchange) {
	e.Detail = fmt.Sprintf("the registry answered %d", answer.StatusCode)
	if len(answer.Errors) > 0 && errorCode.MatchString(answer.Errors[0].Code) {
		e.Detail += " " + answer.Errors[0].Code
	}
	_, e.RetryAfter = x.outcome()
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind, e.Hint = ErrUnauthorized, x.credentialHint()
	case status == http.StatusNotFound:
		e.fromNotFound(x)
	case status == http.StatusTooManyRequests:
		e.Kind = ErrRateLimited
	case status == http.StatusNotImplemented: // a method that the registry refuses, HEAD for example; a retry cannot help
	case status == http.StatusRequestTimeout, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout: // a proxy in front of the registry reports that the registry does not answer
		e.Kind, e.Hint = ErrUnreachable, "the registry has an internal error; the request is retried"
	case status >= http.StatusInternalServerError:
		e.Kind, e.Hint = ErrServer, "the request is retried; check the log of the registry"
	}
}

// fromNotFound fills in the error from the error code of a 404. Some registries answer 404 to
// callers without access.
func (e *Error) fromNotFound(x *exchange) {
	code, _ := x.outcome()
	e.Kind, e.Hint = ErrNotFound, hintReference
	switch code {
	case errcode.ErrorCodeNameUnknown:
		e.Detail, e.noRepository = "the registry does not know the repository", true
	case errcode.ErrorCodeManifestUnknown:
		e.Detail = "the repository has no such manifest"
	case errcode.ErrorCodeBlobUnknown:
		e.Detail = "the repository has no such blob"
	case errcode.ErrorCodeUnauthorized, errcode.ErrorCodeDenied:
		e.Kind, e.Detail, e.Hint = ErrUnauthorized, "the registry answered 404 "+code, x.credentialHint()
	default:
		e.Detail = "the repository or the manifest does not exist"
	}
}

// fromTLS fills in the error if the TLS handshake failed, and reports whether it did.
func (e *Error) fromTLS(err error) bool {
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
		e.Detail, e.Hint = safeText(err), hintCA
		if invalid.Reason == x509.Expired {
			e.Detail = "the certificate has expired or is not valid yet" // the library's message contains the time
		}
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.Detail, e.Hint = "the registry does not use TLS", "set insecure to use plain HTTP"
	case errors.As(err, &network) && network.Op == "remote error": // crypto/tls does not export its type of alerts
		e.fromAlert(safeText(network.Err))
	case errors.Is(err, errDowngrade):
		e.Detail = safeText(err)
	default:
		return false
	}
	e.Kind = ErrTLS
	return true
}

// fromAlert fills in the error from the text of a TLS alert.
func (e *Error) fromAlert(text string) {
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

// fromContent fills in the error if the content is not the requested content, and reports whether
// this is so.
func (e *Error) fromContent(err error) bool {
	switch {
	case errors.Is(err, errdef.ErrSizeExceedsLimit), errors.Is(err, errdef.ErrTooManyPages):
		e.Kind, e.Detail = ErrTooLarge, "over the limit"
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Kind, e.Detail = ErrIntegrity, "the response ended early"
	case isMismatch(err),
		// The library has no error value for headers that contradict the descriptor.
		strings.Contains(err.Error(), "mismatch Content-Length"), strings.Contains(err.Error(), "digest mismatch"):
		e.Kind, e.Detail = ErrIntegrity, "the registry sent different content"
	default:
		return false
	}
	return true
}

// fromNetwork fills in the error if there was no connection or no answer in time, and reports
// whether this is so.
func (e *Error) fromNetwork(err error) bool {
	var network net.Error
	isNetwork := errors.As(err, &network)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNetwork && network.Timeout():
		e.Detail, e.timeout = "no response within the deadline", true
	case isNetwork && !isURLOnly(err), isBrokenConnection(err), errors.Is(err, syscall.ECONNREFUSED):
		e.Detail = safeText(err)
	default:
		return false
	}
	e.Kind, e.Hint = ErrUnreachable, hintReach
	return true
}

// isURLOnly reports whether the only network error in err is the url.Error that net/http puts
// around every error.
func isURLOnly(err error) bool {
	var wrapped *url.Error
	var network net.Error
	return errors.As(err, &wrapped) && !errors.As(wrapped.Err, &network)
}

// safeText returns the innermost text of an error without URLs, cut to maxDetail bytes at a rune.
func safeText(err error) string {
	var wrapped *url.Error
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := ownAddress.ReplaceAllString(strings.ToValidUTF8(err.Error(), "?"), "")
	return truncate.Text(urlText.ReplaceAllString(text, "<url>"), maxDetail)
}
