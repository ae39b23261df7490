// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxReason bounds what is said of one mirror in a message, in bytes.
	maxReason = 120
	apiPath   = "/v2/"
)

// router sends the requests of one operation to the mirrors of a repository and
// to the registry itself, until one of them answers. It implements
// remote.Client for requests without a body.
type router struct {
	// ref is the repository in the URLs that requests come with.
	ref  registry.Reference
	hops []*hop

	mu sync.Mutex
	// lists are the hops that answered the first page of a list; the next pages
	// must come from the same, for others may have other tags.
	lists map[string]*hop
}

// Do implements remote.Client. Where nobody has what is asked for, the outcome is
// the registry's own answer, for mirrors only stand in for it; where the registry
// itself does not answer, as behind an air gap, it is the last mirror's. What the
// others said is noted in the exchange.
func (r *router) Do(req *http.Request) (*http.Response, error) {
	list := listOf(req.URL.Path)
	if h := r.pageOf(list); h != nil {
		return h.do(req.WithContext(h.scoped(req.Context()))) // the link to it was made by that host
	}
	x := exchangeFrom(req.Context())
	hops := slices.DeleteFunc(r.serving(req.URL.Path), x.leavesOut)
	var refusal *http.Response
	var refusedBy string
	for i, h := range hops {
		x.setHost(h.ref.Registry)
		last, left := i == len(hops)-1, len(hops)-i
		if refusal != nil && refusal.StatusCode == http.StatusOK {
			left++ // the empty list counts if the rest is silent: the caller needs time to go on with it
		}
		resp, empty, err := r.attempt(req, h, left)
		switch {
		case isConclusive(req, resp, err) && (last || !empty):
			r.setPage(list, h)
			x.answeredBy(h)
			h.clients.distrust.watch(h, req, resp)
			return resp, nil
		case req.Context().Err() != nil, last && (refusal == nil || !isSilence(err)):
			return resp, err
		}
		x.recordFailure(h.ref.Registry, reasonOf(resp, err))
		if err == nil {
			refusal, refusedBy = resp, h.ref.Registry
		}
	}
	x.setHost(refusedBy)
	x.record(refusal)
	return refusal, nil
}

// pageOf returns the hop that answered the first page of a list.
func (r *router) pageOf(list string) *hop {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists[list]
}

func (r *router) setPage(list string, h *hop) {
	if list == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists[list] = h
}

// detach reads what is of use of a refusal, so that its connection is free while
// others are asked.
func detach(resp *http.Response) *http.Response {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what there is will do
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp
}

// serving returns who may be asked for a path; the registry itself always may.
func (r *router) serving(path string) []*hop {
	var out []*hop
	for _, h := range r.hops {
		if h.serves(byDigest(path)) && !h.clients.distrust.holds(h, path) {
			out = append(out, h)
		}
	}
	return out
}

// listOf returns what tells apart the lists of a repository, at whatever host,
// or "" for requests that are for no list.
func listOf(path string) string {
	if strings.HasSuffix(path, "/tags/list") {
		return "tags"
	}
	if i := strings.LastIndex(path, "/referrers/"); i >= 0 {
		return path[i:]
	}
	return ""
}

type alternativeKey struct{}

// hasAlternative says whether another host will be asked if this one fails.
func hasAlternative(ctx context.Context) bool {
	return ctx.Value(alternativeKey{}) != nil
}

// attempt asks one of the hosts that are left. Until its answer begins, it has
// no more than its share of the time, so that the others can still be asked; the
// body of a good answer has all the time there is. It also says whether the answer
// is an empty list, unless the host is the last.
func (r *router) attempt(req *http.Request, h *hop, left int) (resp *http.Response, empty bool, err error) {
	deadline, bounded := req.Context().Deadline()
	if left == 1 || !bounded {
		resp, err = h.do(r.rewrite(req, h))
		return resp, false, err
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(req.Context(), alternativeKey{}, true))
	share := time.AfterFunc(time.Until(deadline)/time.Duration(left), func() { cancel(errStalled) })
	resp, err = h.do(r.rewrite(req.WithContext(ctx), h))
	empty = err == nil && isEmptyList(resp)
	if err == nil && (resp.StatusCode >= http.StatusBadRequest || empty) {
		resp = detach(resp) // within the share: a mirror may be slow in saying no
		share.Stop()
		cancel(nil)
		return resp, empty, nil
	}
	inTime := share.Stop()
	switch {
	case err == nil && inTime:
		resp.Body = &closingBody{ReadCloser: resp.Body, closed: func() { cancel(nil) }}
		return resp, false, nil
	case err == nil:
		_ = resp.Body.Close() // its context has ended
		err = errStalled
	case !inTime && errors.Is(err, context.Canceled):
		err = errStalled
	}
	cancel(nil)
	return nil, false, err
}

// rewrite returns the request as it is for a hop.
func (r *router) rewrite(req *http.Request, h *hop) *http.Request {
	out := req.Clone(h.scoped(req.Context()))
	out.URL.Scheme, out.URL.Host, out.Host = protocol(h.insecure), h.ref.Host(), h.ref.Host()
	if rest, ok := strings.CutPrefix(req.URL.Path, apiPath+r.ref.Repository+"/"); ok {
		out.URL.Path = apiPath + h.ref.Repository + "/" + rest
	}
	return out
}

// isConclusive says whether an answer ends the search, but for empty lists. A
// mirror that does not know HEAD is not given up for it: the caller asks again
// with GET.
func isConclusive(req *http.Request, resp *http.Response, err error) bool {
	if err != nil {
		return false
	}
	if req.Method == http.MethodHead &&
		(resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented) {
		return true
	}
	return resp.StatusCode < http.StatusBadRequest
}

// isSilence tells failures to get an answer from failures that are one.
func isSilence(err error) bool {
	return err != nil && errors.Is(explain("", "", err, &exchange{}), ErrUnreachable)
}

// reasonOf describes a failure shortly.
func reasonOf(resp *http.Response, err error) string {
	if err == nil && resp.StatusCode == http.StatusOK {
		return "has an empty list"
	} else if err == nil {
		return fmt.Sprintf("answered %d", resp.StatusCode)
	}
	failure := explain("", "", err, &exchange{})
	if failure.Detail == "" {
		return failure.Kind.Error()
	}
	return truncate.Text(failure.Detail, maxReason)
}

// hop is a route with what is needed to take it.
type hop struct {
	route
	clients *clients
	source  *source
	// transports are the connections to use, transportKey identifies them.
	transports   *transports
	transportKey string
	// way identifies the way to the host, see limits.
	way string
}

// scoped returns a context with the hint which token to ask the host for.
func (h *hop) scoped(ctx context.Context) context.Context {
	return auth.WithScopesForHost(ctx, h.ref.Host(), auth.ScopeRepository(h.ref.Repository, auth.ActionPull))
}

// do sends a request that is meant for this hop. A kept credential of a cloud
// provider that is refused is asked for once anew.
func (h *hop) do(req *http.Request) (*http.Response, error) {
	for {
		began := time.Now()
		credential, err := h.source.credential(req.Context())
		if err != nil {
			return nil, err
		}
		resp, err := h.clients.client(h, credential).Do(req)
		if !h.source.renewable(resp, err, began) {
			return resp, err
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}
