// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxReason is the maximum length of the text about one mirror in a message, in bytes.
	maxReason = 120
	apiPath   = "/v2/"
	// maxEmptyList is the maximum size of a response that may be an empty list, in bytes.
	maxEmptyList = 4 << 10
)

// router sends a request to the mirrors of a repository and to the registry itself, one after the other, until a host
// answers. It implements remote.Client for the requests of one operation. The requests must have no body.
type router struct {
	// ref is the repository in the URLs of the incoming requests.
	ref  registry.Reference
	hops []*hop

	mu sync.Mutex
	// lists holds, for each list, the hop that answered the first page. The same host must send the next pages, because
	// other hosts may have other tags.
	lists map[string]*hop
}

// Do implements remote.Client. If no host has the content, the result is the response of the registry, because a mirror
// only replaces the registry. If the registry does not answer, for example in an air-gapped network, the result is the
// response of the last mirror that answered. The Exchange records the failures of the other hosts.
func (r *router) Do(req *http.Request) (*http.Response, error) {
	list := listOf(req.URL.Path)
	if h := r.pageOf(list); h != nil {
		return h.do(req.WithContext(h.scoped(req.Context()))) // this host sent the link to the page
	}
	x := exchangeFrom(req.Context())
	hops := slices.DeleteFunc(r.serving(req.URL.Path), x.isExcluded)
	var refusal *http.Response
	var refusedBy string
	for i, h := range hops {
		x.setHost(h.Ref.Registry)
		last, remaining := i == len(hops)-1, len(hops)-i
		if refusal != nil && refusal.StatusCode == http.StatusOK {
			// A host has sent an empty list. It becomes the result if no other host answers, so the caller needs time for it.
			remaining++
		}
		resp, empty, err := r.attempt(req, h, remaining)
		switch {
		case isConclusive(req, resp, err) && (last || !empty):
			r.setPage(list, h)
			x.answeredBy(h)
			h.endpoints.blocklist.watch(h, req, resp)
			return resp, nil
		case req.Context().Err() != nil, last && (refusal == nil || !isNoAnswer(err)):
			return resp, err
		}
		x.recordFailure(h.Ref.Registry, reasonOf(resp, err))
		if err == nil {
			refusal, refusedBy = resp, h.Ref.Registry
		}
	}
	x.setHost(refusedBy)
	x.record(refusal)
	return refusal, nil
}

// pageOf returns the hop that answered the first page of a list, or nil.
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

// bufferBody reads the start of an error's body into memory. The connection is then free while other hosts are tried.
func bufferBody(resp *http.Response) *http.Response {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part of the body is enough
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp
}

// serving returns the hops that serve requests for a path. The registry itself is always one of them.
func (r *router) serving(path string) []*hop {
	var out []*hop
	for _, h := range r.hops {
		if h.Serves(path) && !h.endpoints.blocklist.blocks(h, path) {
			out = append(out, h)
		}
	}
	return out
}

// listOf returns the key of the list in a path. The key is the same for all hosts. The key is "" if the path is not the
// path of a list.
func listOf(path string) string {
	if strings.HasSuffix(path, "/tags/list") {
		return "tags"
	}
	if i := strings.LastIndex(path, "/referrers/"); i >= 0 {
		return path[i:]
	}
	return ""
}

// attempt sends the request to one host. The host must begin its response within its share of the remaining time. The
// other shares are for the remaining hosts. The body of a good response may take all the remaining time. empty is true
// if the response is an empty list. It is always false for the last host.
func (r *router) attempt(req *http.Request, h *hop, remaining int) (resp *http.Response, empty bool, err error) {
	deadline, bounded := req.Context().Deadline()
	if remaining == 1 || !bounded {
		resp, err = h.do(r.rewrite(req, h))
		return resp, false, err
	}
	ctx, cancel := context.WithCancelCause(transport.WithAlternative(req.Context()))
	share := time.AfterFunc(time.Until(deadline)/time.Duration(remaining), func() { cancel(transport.ErrStalled) })
	resp, err = h.do(r.rewrite(req.WithContext(ctx), h))
	empty = err == nil && isEmptyList(resp)
	if err == nil && (resp.StatusCode >= http.StatusBadRequest || empty) {
		resp = bufferBody(resp) // read it within the share, because a mirror may send its error slowly
		share.Stop()
		cancel(nil)
		return resp, empty, nil
	}
	inTime := share.Stop()
	switch {
	case err == nil && inTime:
		resp.Body = transport.OnClose(resp.Body, func() { cancel(nil) })
		return resp, false, nil
	case err == nil:
		_ = resp.Body.Close() // the context of the body has ended
		err = transport.ErrStalled
	case !inTime && errors.Is(err, context.Canceled):
		err = transport.ErrStalled
	}
	cancel(nil)
	return nil, false, err
}

// rewrite returns the request with the host and the repository name of a hop.
func (r *router) rewrite(req *http.Request, h *hop) *http.Request {
	out := req.Clone(h.scoped(req.Context()))
	out.URL.Scheme, out.URL.Host, out.Host = h.Protocol(), h.Ref.Host(), h.Ref.Host()
	if rest, ok := strings.CutPrefix(req.URL.Path, apiPath+r.ref.Repository+"/"); ok {
		out.URL.Path = apiPath + h.Ref.Repository + "/" + rest
	}
	return out
}

// isEmptyList reports whether a response is a list of tags or referrers without entries. The body can still be read
// afterwards. A pull-through cache has empty lists for content that it never pulled. These lists must not hide the
// lists of the registry.
func isEmptyList(resp *http.Response) bool {
	isList := resp.StatusCode == http.StatusOK && listOf(resp.Request.URL.Path) != ""
	if !isList || resp.ContentLength > maxEmptyList || resp.Header.Get("Link") != "" {
		return false
	}
	data, err := peek(resp, maxEmptyList)
	var list struct {
		Tags      []json.RawMessage `json:"tags"`
		Manifests []json.RawMessage `json:"manifests"`
	}
	return err == nil && json.Unmarshal(data, &list) == nil && len(list.Tags)+len(list.Manifests) == 0
}

// isConclusive reports whether no further host needs the request. Do checks empty lists itself. A mirror that does not
// support HEAD is conclusive, because the caller repeats the request with GET.
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

// isNoAnswer reports whether err means that the host did not answer.
func isNoAnswer(err error) bool {
	return err != nil && errors.Is(explain("", "", err, &Exchange{}), ocierr.ErrUnreachable)
}

// reasonOf describes the failure of a host in a few words.
func reasonOf(resp *http.Response, err error) string {
	if err == nil && resp.StatusCode == http.StatusOK {
		return "has an empty list"
	} else if err == nil {
		return fmt.Sprintf("answered %d", resp.StatusCode)
	}
	failure := explain("", "", err, &Exchange{})
	if failure.Detail == "" {
		return failure.Kind.Error()
	}
	return truncate.Text(failure.Detail, maxReason)
}
