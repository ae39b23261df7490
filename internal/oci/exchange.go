// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

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
)

// maxErrorBody is far above any error list a registry writes, in bytes.
const maxErrorBody = 16 << 10

// exchange collects, for one operation, what the protocol library does not
// hand on. It travels in the context of the operation's requests.
type exchange struct {
	// registry is the one in the URL of the source.
	registry string
	// size is that of the content that is asked for, in bytes; 0 if it is not known.
	size int64

	mu         sync.Mutex
	notFound   string
	retryAfter time.Duration
	// host is who gave the outcome, vain are those that were asked in vain, each with
	// the reason.
	host        string
	failedHosts []asked
	// hint says what to do if the credential that was used last is refused.
	hint string
	// answered is who answered last, leftOut are those who are not asked any more.
	answered *hop
	leftOut  []*hop
}

// asked is a host and why it was left for the next one.
type asked struct{ host, reason string }

type exchangeKey struct{}

// withExchange returns a context whose requests are recorded under a registry.
func withExchange(ctx context.Context, registry string) (context.Context, *exchange) {
	x := &exchange{registry: registry}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

func exchangeFrom(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// ask notes whose answer is the outcome from now on. What was noted of another
// one's does not hold any longer.
func (x *exchange) setHost(host string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.host != host {
		x.host, x.notFound, x.retryAfter = host, "", 0
	}
}

// gaveUp notes why a host was left for the next one.
func (x *exchange) recordFailure(host, reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failedHosts = append(x.failedHosts, asked{host, reason})
}

// usesCredential notes what to do if the credential of the next request is refused.
func (x *exchange) usesCredential(hint string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hint = hint
}

func (x *exchange) credentialHint() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return cmp.Or(x.hint, hintNone)
}

func (x *exchange) answeredBy(h *hop) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = h
}

// leaveOut has a mirror whose answer was wrong not asked again, and returns
// whether there was one.
func (x *exchange) leaveOut(failure *Error) bool {
	wrong := errors.Is(failure, ErrIntegrity) || errors.Is(failure, ErrTooLarge) ||
		errors.Is(failure, ErrUnexpected) || errors.Is(failure, ErrUnsupported)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !wrong || x.answered == nil || !x.answered.mirror {
		return false
	}
	x.failedHosts = append(x.failedHosts, asked{x.answered.ref.Registry, failure.Kind.Error()})
	x.leftOut, x.answered = append(x.leftOut, x.answered), nil
	return true
}

func (x *exchange) leavesOut(h *hop) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.leftOut, h)
}

// route says who was asked, if it was not the registry alone.
func (x *exchange) route() string {
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

// record notes the wait that a registry asked for and the code of a 404.
func (x *exchange) record(resp *http.Response) {
	wait := retryAfter(resp, time.Now())
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

func (x *exchange) outcome() (notFound string, retryAfter time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.notFound, x.retryAfter
}

// peekErrorCode reads the first code of a registry's error list and leaves the
// body readable.
func peekErrorCode(resp *http.Response) string {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body = &peekedBody{Reader: io.MultiReader(bytes.NewReader(data), resp.Body), Closer: resp.Body}
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

type peekedBody struct {
	io.Reader
	io.Closer
}
