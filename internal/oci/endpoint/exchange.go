// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// maxErrorBody is the maximum size of an error's body that is read, in bytes. A registry's list of errors is far
// smaller.
const maxErrorBody = 16 << 10

// Exchange records details of the requests of one operation that the protocol library does not return. It is stored in
// the context of the requests.
type Exchange struct {
	// registry is the host[:port] in the source's URL.
	registry string
	// Size is the size of the requested content in bytes. Zero means that the size is unknown. Set it before the first
	// request.
	Size int64

	mu         sync.Mutex
	notFound   string
	retryAfter time.Duration
	// host is the host whose response is the result of the operation. failedHosts are the other hosts that got the
	// request.
	host        string
	failedHosts []failedHost
	// hint is the Error.Hint for a registry that refuses the last used credential.
	hint string
	// answered is the hop that answered last. The hops in excluded get no more requests in this operation.
	answered *hop
	excluded []*hop
}

// failedHost is a host that failed, with the reason.
type failedHost struct{ host, reason string }

type exchangeKey struct{}

// withExchange returns a context with a new Exchange for a registry.
func withExchange(ctx context.Context, registry string) (context.Context, *Exchange) {
	x := &Exchange{registry: registry}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

func exchangeFrom(ctx context.Context) *Exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*Exchange); ok {
		return x
	}
	return &Exchange{}
}

// setHost records the host whose response is now the result. If the host changes, it drops the details of the previous
// response.
func (x *Exchange) setHost(host string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.host != host {
		x.host, x.notFound, x.retryAfter = host, "", 0
	}
}

// recordFailure records the failure of a host, after which the next host gets the request.
func (x *Exchange) recordFailure(host, reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failedHosts = append(x.failedHosts, failedHost{host, reason})
}

// usesCredential records the hint for the case that the registry refuses the next request's credential.
func (x *Exchange) usesCredential(hint string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hint = hint
}

func (x *Exchange) credentialHint() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return cmp.Or(x.hint, credentials.HintNone)
}

func (x *Exchange) answeredBy(h *hop) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = h
}

// Exclude excludes the mirror that answered last from the operation if its response was wrong. It reports whether it
// excluded a mirror.
func (x *Exchange) Exclude(failure *ocierr.Error) bool {
	wrong := errors.Is(failure, ocierr.ErrIntegrity) || errors.Is(failure, ocierr.ErrTooLarge) ||
		errors.Is(failure, ocierr.ErrUnexpected) || errors.Is(failure, ocierr.ErrUnsupported)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !wrong || x.answered == nil || !x.answered.IsMirror {
		return false
	}
	x.failedHosts = append(x.failedHosts, failedHost{x.answered.Ref.Registry, failure.Kind.Error()})
	x.excluded, x.answered = append(x.excluded, x.answered), nil
	return true
}

func (x *Exchange) isExcluded(h *hop) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.excluded, h)
}

// route describes the hosts that got the request. It is empty if only the registry got the request.
func (x *Exchange) route() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var parts []string
	if x.host != "" && x.host != x.registry {
		parts = append(parts, "answered by "+x.host)
	}
	for _, other := range x.failedHosts {
		text := "failed at " + other.host + " (" + other.reason + ")"
		if other.host != x.host && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// record stores the Retry-After of a response, and the error code of a 404.
func (x *Exchange) record(resp *http.Response) {
	wait := transport.RetryAfter(resp, time.Now())
	var code string
	if resp.StatusCode == http.StatusNotFound && resp.Request.Method == http.MethodGet {
		code = peekErrorCode(resp)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.retryAfter = wait
	if code != "" {
		x.notFound = code
	}
}

func (x *Exchange) outcome() (notFound string, retryAfter time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.notFound, x.retryAfter
}

// peekErrorCode returns the first code in a registry's list of errors. The body can still be read afterwards.
func peekErrorCode(resp *http.Response) string {
	data, err := peek(resp, maxErrorBody)
	var list struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if err != nil || json.Unmarshal(data, &list) != nil || len(list.Errors) == 0 {
		return ""
	}
	return list.Errors[0].Code
}

// peek returns at most limit bytes of a body. The body can still be read afterwards.
func peek(resp *http.Response, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	resp.Body = &peekedBody{Reader: io.MultiReader(bytes.NewReader(data), resp.Body), Closer: resp.Body}
	return data, err
}

type peekedBody struct {
	io.Reader
	io.Closer
}
