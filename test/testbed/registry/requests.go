// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kind is what a request is about.
type Kind string

// The kinds of requests.
const (
	ManifestGet  Kind = "ManifestGet"
	ManifestHead Kind = "ManifestHead"
	BlobGet      Kind = "BlobGet"
	BlobHead     Kind = "BlobHead"
	TagList      Kind = "TagList"
	// Referrers is the listing of what refers to a manifest, such as its signatures.
	Referrers Kind = "Referrers"
	Write     Kind = "Write"
	// Other is all else, mainly the check of /v2/ for the way to authenticate.
	Other Kind = "Other"
)

// Request is one request that a client made.
type Request struct {
	Time time.Time
	Kind Kind
	// Method is HTTP's.
	Method string
	// Repository is the path of the repository, such as "charts/demo".
	Repository string
	// Reference is the tag or digest, empty for kinds that have none.
	Reference string
	UserAgent string
	// Host is the name by which the client knows the registry.
	Host string
	// Authorization is the scheme of that header, "Basic" or "Bearer", and empty without
	// the header. Clients that wait to be asked for credentials make each first request twice.
	Authorization string
	// User is whose password came along, or for whom the token was issued.
	User string
	// ClientCert is the common name in the client's certificate.
	ClientCert string
	// Code is the HTTP status, 0 as long as the answer has not begun.
	Code int
	// Bytes is the size of the answer's body.
	Bytes int64
}

// Counts are the numbers of requests by kind, refused ones (401) left out.
type Counts struct {
	ManifestGets, ManifestHeads, BlobGets, BlobHeads, TagLists, Referrers, Writes, Others int
	// Refused are the requests answered with 401.
	Refused int
	// Bytes is the size of all answers' bodies.
	Bytes int64
}

// Total is the number of all requests, refused ones too.
func (c Counts) Total() int {
	return c.ManifestGets + c.ManifestHeads + c.BlobGets + c.BlobHeads + c.TagLists + c.Referrers +
		c.Writes + c.Others + c.Refused
}

// Requests returns the requests since the start or the last ResetCounts, in
// the order in which they came: those that all of match select.
func (r *Registry) Requests(match ...func(Request) bool) []Request {
	return slices.DeleteFunc(r.front.all(), func(request Request) bool {
		return slices.ContainsFunc(match, func(selects func(Request) bool) bool { return !selects(request) })
	})
}

// Counts sums up Requests.
func (r *Registry) Counts(match ...func(Request) bool) Counts { return count(r.Requests(match...)) }

// ResetCounts forgets all requests so far.
func (r *Registry) ResetCounts() { r.front.forget() }

func count(requests []Request) Counts {
	var c Counts
	for _, r := range requests {
		c.Bytes += r.Bytes
		if r.Code == http.StatusUnauthorized {
			c.Refused++
			continue
		}
		switch r.Kind {
		case ManifestGet:
			c.ManifestGets++
		case ManifestHead:
			c.ManifestHeads++
		case BlobGet:
			c.BlobGets++
		case BlobHead:
			c.BlobHeads++
		case TagList:
			c.TagLists++
		case Referrers:
			c.Referrers++
		case Write:
			c.Writes++
		default:
			c.Others++
		}
	}
	return c
}

// classify reads a request's kind and subject from its path as the OCI
// distribution specification defines it: /v2/<repository>/<what>/<reference>.
func classify(method, path string) Request {
	r := Request{Method: method, Kind: Other}
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return r
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 3 {
		return r
	}
	what, last := parts[len(parts)-2], parts[len(parts)-1]
	r.Repository = strings.Join(parts[:len(parts)-2], "/")
	read := method == http.MethodGet || method == http.MethodHead
	head := method == http.MethodHead
	switch {
	case what == "tags" && last == "list" && read:
		r.Kind = TagList
		return r
	case strings.Contains(rest, "/blobs/uploads/"):
		r.Kind = Write
		r.Repository, _, _ = strings.Cut(rest, "/blobs/uploads/")
		return r
	case what == "manifests" && read:
		r.Kind = pick(head, ManifestHead, ManifestGet)
	case what == "blobs" && read:
		r.Kind = pick(head, BlobHead, BlobGet)
	case what == "referrers" && read:
		r.Kind = Referrers
	case what == "manifests" || what == "blobs":
		r.Kind = Write
	default:
		return r
	}
	r.Reference = last
	return r
}

// authorizationOf reads the scheme of the Authorization header and whose credential it holds, never the credential.
func authorizationOf(req *http.Request) (scheme, user string) {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if scheme == "Bearer" {
		return scheme, tokenUser(token)
	}
	user, _, _ = req.BasicAuth()
	return scheme, user
}

func pick(condition bool, yes, no Kind) Kind {
	if condition {
		return yes
	}
	return no
}
