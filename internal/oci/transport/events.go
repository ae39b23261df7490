// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"strings"
	"time"
)

// The kinds of requests for RequestEvent.Kind.
const (
	RequestManifest = "manifest"
	// RequestBlob is a request for a blob of a registry, or for a file of a chart repository. Requests for the index of
	// a chart repository have the kind RequestIndex.
	RequestBlob = "blob"
	RequestTags = "tags"
	// RequestReferrers is a request for the referrers of a manifest, for example its signatures.
	RequestReferrers = "referrers"
	RequestToken     = "token"
	// RequestIndex is a request for the index of a chart repository.
	RequestIndex = "index"
	// RequestRedirect is a request to the target of a redirect, for example the storage of a registry.
	RequestRedirect = "redirect"
	// RequestService is a request to a host that is neither a registry nor a chart repository, for example the
	// revocation service of a certificate. Its RequestEvent.Registry is empty.
	RequestService = "service"
)

// RequestEvent describes one HTTP request. Each retry is a separate request.
type RequestEvent struct {
	// Registry is host[:port] of the source's URL or of a mirror. It stays the same if the registry redirects the
	// request to another host, so it can be the label of a metric.
	Registry string
	// Kind is one of the Request constants.
	Kind string
	// Method is the HTTP method.
	Method string
	// Status is the HTTP status. It is 0 if there was no response.
	Status int
	// Bytes is the number of bytes of the body that were read.
	Bytes int64
	// Duration is the time from the request to the end of the body.
	Duration time.Duration
}

// KindOf returns the kind of a request to a registry, for RequestEvent.
func KindOf(req *http.Request) string {
	path := req.URL.Path
	switch {
	case req.Response != nil: // set by net/http on requests that follow a redirect
		return RequestRedirect
	case !strings.HasPrefix(path, "/v2/"):
		return RequestToken
	case strings.HasSuffix(path, "/tags/list"):
		return RequestTags
	case strings.Contains(path, "/blobs/"):
		return RequestBlob
	case strings.Contains(path, "/manifests/"):
		return RequestManifest
	case strings.Contains(path, "/referrers/"):
		return RequestReferrers
	default:
		return RequestToken
	}
}
