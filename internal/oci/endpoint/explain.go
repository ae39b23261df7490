// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	hintRealm = "it must have a public address or the registry's own host name, or be listed in the manager's " +
		"--registry-token-hosts"
	hintProtocol  = "check that the URL is that of a registry, with the right protocol and port"
	hintOperator  = "ask the operator of the manager"
	hintReference = "check the URL and the reference; some registries return this when credentials are missing"
)

// errorCode matches the error codes of the distribution specification. Other text of a registry is not shown, because
// it may contain anything.
var errorCode = regexp.MustCompile(`^[A-Z][A-Z_]{2,39}$`)

// Error converts an error of the protocol library to an *ocierr.Error. It copies only the parts that are safe to show.
func (x *Exchange) Error(op, subject string, err error) *ocierr.Error {
	out := explain(op, subject, err, x)
	if route := x.route(); !strings.HasSuffix(out.Detail, route) {
		if out.Detail != "" {
			route = "; " + route
		}
		out.Detail += route
	}
	return out
}

// explain is Error for one host. It does not add the other hosts of the Exchange.
func explain(op, subject string, err error, x *Exchange) *ocierr.Error {
	var own *ocierr.Error
	if errors.As(err, &own) {
		out := *own
		if out.Op == "" { // the packages below do not know the operation and the subject
			out.Op, out.Subject = op, subject
		}
		return &out
	}
	out := &ocierr.Error{Op: op, Subject: subject, Kind: ocierr.ErrUnexpected}
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, &answer):
		fromStatus(out, answer, x)
	case errors.Is(err, errdef.ErrNotFound):
		fromNotFound(out, x)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		out.Kind, out.Detail, out.Hint = ocierr.ErrUnauthorized, "the registry requires credentials, and there are none",
			x.credentialHint()
	case strings.Contains(err.Error(), "missing username or password"):
		// The library has no error value for this case.
		out.Kind, out.Detail = ocierr.ErrInvalidAccess,
			"the registry requires a username and a password, and the credential does not have both"
	case strings.Contains(err.Error(), "bearer realm"):
		// The library has no error value for this case. It refuses token services at internal addresses, because a
		// registry could use them to make the manager send requests to its own network.
		out.Kind, out.Hint = ocierr.ErrUnauthorized, hintRealm
		out.Detail = "the address of the registry's token service is refused"
	case errors.Is(err, bytebudget.ErrTooLarge):
		out.Kind, out.Detail = ocierr.ErrTooLarge, "the response needs more memory than one registry may use"
	case errors.Is(err, bytebudget.ErrExhausted):
		return ocierr.NoRoom(op, subject)
	case errors.Is(err, context.Canceled):
		out.Kind = context.Canceled
	case transport.Explain(out, err), fromContent(out, err), out.FromNetwork(err):
	default:
		// The text of a library may contain text of the registry.
		out.Detail, out.Hint = "the response is not that of a registry", hintProtocol
	}
	return out
}

// fromStatus fills in the error from an HTTP status.
func fromStatus(e *ocierr.Error, answer *errcode.ErrorResponse, x *Exchange) {
	e.Detail = fmt.Sprintf("the registry answered %d", answer.StatusCode)
	if len(answer.Errors) > 0 && errorCode.MatchString(answer.Errors[0].Code) {
		e.Detail += " " + answer.Errors[0].Code
	}
	_, e.RetryAfter = x.outcome()
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind, e.Hint = ocierr.ErrUnauthorized, x.credentialHint()
	case status == http.StatusNotFound:
		fromNotFound(e, x)
	case status == http.StatusTooManyRequests:
		e.Kind = ocierr.ErrRateLimited
	case status == http.StatusNotImplemented: // the registry refuses the method, for example HEAD; a retry cannot help
	case status == http.StatusRequestTimeout, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout: // a proxy in front of the registry reports that the registry does not answer
		e.Kind, e.Hint = ocierr.ErrUnreachable, "the registry has an internal error; the request is retried"
	case status >= http.StatusInternalServerError:
		e.Kind, e.Hint = ocierr.ErrServer, "the request is retried; check the log of the registry"
	}
}

// fromNotFound fills in the error from the error code of a 404. Some registries answer 404 to callers without access.
func fromNotFound(e *ocierr.Error, x *Exchange) {
	code, _ := x.outcome()
	e.Kind, e.Hint = ocierr.ErrNotFound, hintReference
	switch code {
	case errcode.ErrorCodeNameUnknown:
		e.Detail, e.NoRepository = "the registry does not know the repository", true
	case errcode.ErrorCodeManifestUnknown:
		e.Detail = "the repository has no such manifest"
	case errcode.ErrorCodeBlobUnknown:
		e.Detail = "the repository has no such blob"
	case errcode.ErrorCodeUnauthorized, errcode.ErrorCodeDenied:
		e.Kind, e.Detail, e.Hint = ocierr.ErrUnauthorized, "the registry answered 404 "+code, x.credentialHint()
	default:
		e.Detail = "the repository or the manifest does not exist"
	}
}

// fromContent fills in the error if the registry sent other content than requested. It returns false for other errors.
func fromContent(e *ocierr.Error, err error) bool {
	switch {
	case errors.Is(err, errdef.ErrSizeExceedsLimit), errors.Is(err, errdef.ErrTooManyPages):
		e.Kind, e.Detail = ocierr.ErrTooLarge, "over the limit"
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Kind, e.Detail, e.Truncated = ocierr.ErrIntegrity, "the response ended early", true
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData),
		// The library has no error value for headers that contradict the descriptor.
		strings.Contains(err.Error(), "mismatch Content-Length"), strings.Contains(err.Error(), "digest mismatch"):
		e.Kind, e.Detail = ocierr.ErrIntegrity, "the registry sent different content"
	default:
		return false
	}
	return true
}
