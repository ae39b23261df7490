// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ocierr

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// maxDetail is the maximum length of a library's text in Error.Detail, in bytes.
const maxDetail = 200

// HintReach is the Error.Hint for a host that did not answer.
const HintReach = "check the registry, the network and the proxy settings"

// urlText matches URLs in messages of libraries. The queries of redirects and token requests may contain signatures and
// account names.
var urlText = regexp.MustCompile(`[a-z]+://[^\s"]+`)

// ownAddress matches the local address of a connection in messages of the system. Its port is different at each
// attempt, and each new message would cause an Event and a status write.
var ownAddress = regexp.MustCompile(`[^\s"]+->`)

// FromNetwork fills in the error if the connection failed or no answer came in time. It returns false for other errors.
func (e *Error) FromNetwork(err error) bool {
	var network net.Error
	isNetwork := errors.As(err, &network)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNetwork && network.Timeout():
		e.Detail, e.Timeout = "no response within the deadline", true
	case isNetwork && !isURLOnly(err), IsBrokenConnection(err), errors.Is(err, syscall.ECONNREFUSED):
		e.Detail = SafeText(err)
	default:
		return false
	}
	e.Kind, e.Hint = ErrUnreachable, HintReach
	return true
}

// isURLOnly reports whether the only network error in err is the url.Error that net/http adds to every error.
func isURLOnly(err error) bool {
	var wrapped *url.Error
	var network net.Error
	return errors.As(err, &wrapped) && !errors.As(wrapped.Err, &network)
}

// IsBrokenConnection reports whether the connection broke during the request. net/http repeats such a request only if
// the connection was reused.
func IsBrokenConnection(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// SafeText returns the innermost text of an error without URLs. The text has at most maxDetail bytes and ends with a
// complete rune.
func SafeText(err error) string {
	var wrapped *url.Error
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := ownAddress.ReplaceAllString(strings.ToValidUTF8(err.Error(), "?"), "")
	return truncate.Text(urlText.ReplaceAllString(text, "<url>"), maxDetail)
}
