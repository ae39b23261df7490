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

// maxDetail bounds the text taken from errors of libraries.
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

// errorCode is the form of the codes of the distribution specification. What
// does not look like one is not shown, for a registry may write anything.
var errorCode = regexp.MustCompile(`^[A-Z][A-Z_]{2,39}$`)

// urlText finds URLs in messages of libraries: queries of redirects and token
// requests hold signatures and account names.
var urlText = regexp.MustCompile(`[a-z]+://[^\s"]+`)

// ownAddress finds our end of a connection in messages of the system. Its port is
// another at each try, and a message that changes is one more event and write.
var ownAddress = regexp.MustCompile(`[^\s"]+->`)

// classify turns an error of the protocol library into an *Error. It takes
// only what is safe to show from it.
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

// explain is classify for a single host.
func explain(op, subject string, err error, x *exchange) *Error {
	var own *Error
	if errors.As(err, &own) {
		out := *own
		if out.Op == "" { // made below the protocol library, which knows neither
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
		// Nor for this.
		out.Kind, out.Detail = ErrInvalidAccess,
			"the registry requires a username and a password, and the credential does not have both"
	case strings.Contains(err.Error(), "bearer realm"):
		// The library has no error value for this. It refuses token services at
		// internal addresses, which a registry could otherwise use to reach them.
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
		// Texts of libraries repeat here what the other side sent.
		out.Detail, out.Hint = "the response is not that of a registry", hintProtocol
	}
	return out
}

// fromStatus explains an HTTP status.
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
	case status == http.StatusNotImplemented: // refuses a method, HEAD for example; it will not pass
	case status == http.StatusRequestTimeout, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout: // something before the registry says that this does not answer
		e.Kind, e.Hint = ErrUnreachable, "the registry has an internal error; the request is retried"
	case status >= http.StatusInternalServerError:
		e.Kind, e.Hint = ErrServer, "the request is retried; check the log of the registry"
	}
}

// fromNotFound says what was not found, if the registry said so, or what it hides from us.
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

// fromTLS explains failures of the TLS handshake.
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
			e.Detail = "the certificate has expired or is not valid yet" // the message of the library holds the time
		}
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.Detail, e.Hint = "the registry does not use TLS", "set insecure to use plain HTTP"
	case errors.As(err, &network) && network.Op == "remote error": // crypto/tls keeps the type of alerts to itself
		e.fromAlert(safeText(network.Err))
	case errors.Is(err, errDowngrade):
		e.Detail = safeText(err)
	default:
		return false
	}
	e.Kind = ErrTLS
	return true
}

// fromAlert explains what the other side did not like about the handshake.
func (e *Error) fromAlert(text string) {
	e.Detail = "the registry ended the handshake: " + text
	switch {
	case strings.Contains(text, "certificate required"):
		e.Detail, e.Hint = "the registry requires a client certificate, and there is none that it accepts", hintClientCert
	case strings.Contains(text, "certificate"):
		e.Hint = hintClientCert
	case strings.Contains(text, "handshake failure"): // of TLS 1.2, which has no alert for a missing certificate
		e.Hint = hintHandshake
	}
}

// fromContent explains content that is not what was asked for.
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

// fromNetwork explains connections that could not be made or went silent.
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

// isURLOnly tells errors whose only network error is url.Error, which net/http
// puts around everything.
func isURLOnly(err error) bool {
	var wrapped *url.Error
	var network net.Error
	return errors.As(err, &wrapped) && !errors.As(wrapped.Err, &network)
}

// safeText returns the innermost text of an error without URLs, cut to
// maxDetail bytes at a rune.
func safeText(err error) string {
	var wrapped *url.Error
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := ownAddress.ReplaceAllString(strings.ToValidUTF8(err.Error(), "?"), "")
	return truncate.Text(urlText.ReplaceAllString(text, "<url>"), maxDetail)
}
