// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of content that a request is for.
type Kind string

// The kinds of requests.
const (
	ManifestGet  Kind = "ManifestGet"
	ManifestHead Kind = "ManifestHead"
	BlobGet      Kind = "BlobGet"
	BlobHead     Kind = "BlobHead"
	TagList      Kind = "TagList"
	// Referrers is the list of manifests that refer to a manifest, such as its signatures.
	Referrers Kind = "Referrers"
	Write     Kind = "Write"
	// Other is every other request, mainly the request to /v2/ that finds the way to authenticate.
	Other Kind = "Other"
)

// Request is one request of a client.
type Request struct {
	Time time.Time
	Kind Kind
	// Method is the HTTP method.
	Method string
	// Repository is the path of the repository, such as "charts/demo".
	Repository string
	// Reference is the tag or digest, empty for kinds without a reference.
	Reference string
	UserAgent string
	// Host is the Host header of the request.
	Host string
	// Authorization is the scheme of the Authorization header, "Basic" or "Bearer", or empty without the header. Clients
	// that send credentials only after a challenge send each first request twice.
	Authorization string
	// User is the user of the password or of the token.
	User string
	// ClientCert is the common name in the client's certificate.
	ClientCert string
	// Code is the HTTP status, 0 before the answer begins.
	Code int
	// Bytes is the size of the answer's body.
	Bytes int64
}

// Counts are the numbers of requests by kind. Refused requests (401) are counted only in Refused.
type Counts struct {
	ManifestGets, ManifestHeads, BlobGets, BlobHeads, TagLists, Referrers, Writes, Others int
	// Refused are the requests answered with 401.
	Refused int
	// Bytes is the size of all answers' bodies.
	Bytes int64
}

// Total is the number of all requests, including refused ones.
func (c Counts) Total() int {
	return c.ManifestGets + c.ManifestHeads + c.BlobGets + c.BlobHeads + c.TagLists + c.Referrers +
		c.Writes + c.Others + c.Refused
}

// Requests returns the requests since the start or the last ResetCounts, in the order of their arrival. It returns the
// requests that all of match select.
func (r *Registry) Requests(match ...func(Request) bool) []Request {
	return slices.DeleteFunc(r.front.all(), func(request Request) bool {
		return slices.ContainsFunc(match, func(selects func(Request) bool) bool { return !selects(request) })
	})
}

// Counts returns the numbers of the requests that Requests returns.
func (r *Registry) Counts(match ...func(Request) bool) Counts { return count(r.Requests(match...)) }

// ResetCounts deletes the records of all requests.
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

// classify returns a request's kind and subject. They are part of the path, as the OCI distribution specification
// defines: /v2/<repository>/<what>/<reference>.
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

// authorizationOf returns the scheme of the Authorization header and the user of the credential, but never the
// credential.
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
