// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import "time"

// The kinds of request in RequestEvent.
const (
	RequestManifest = "manifest"
	// RequestBlob is a request for a blob of a registry, or for a file of a chart repository other than the index.
	RequestBlob = "blob"
	RequestTags = "tags"
	// RequestReferrers is a request for the referrers of a manifest, for example its signatures.
	RequestReferrers = "referrers"
	RequestToken     = "token"
	// RequestIndex is a request for the index of a chart repository.
	RequestIndex = "index"
	// RequestRedirect is a request to the target of a redirect, for example the storage of a registry.
	RequestRedirect = "redirect"
)

// The kinds of content in CacheEvent.
const (
	CacheManifest = "manifest"
	CacheBlob     = "blob"
)

// RequestEvent describes one HTTP request. Each attempt is a request of its own.
type RequestEvent struct {
	// Registry is the host[:port] of the source's URL or of a mirror. It stays the same for requests
	// that a registry redirected to another host, so that it can be a metric's label.
	Registry string
	// Kind is one of the Request constants.
	Kind string
	// Method is the HTTP method.
	Method string
	// Status is the HTTP status, 0 if there was no answer.
	Status int
	// Bytes is the number of bytes of the body that were read.
	Bytes int64
	// Duration is the time from the request to the end of the body.
	Duration time.Duration
}

// CacheEvent describes one lookup in the content store.
type CacheEvent struct {
	// Kind is one of the Cache constants.
	Kind string
	// Hit is whether the store had the content intact.
	Hit bool
}

// FileEvent reports that a file of Options was read and is invalid. Its last valid content stays in
// use. Calls that need a file that was never valid fail. Each failure is reported once.
type FileEvent struct {
	Path string
	// Err names the file and the cause. It contains no secrets.
	Err error
}

// Observer receives events for metrics and logs. Its functions may be nil. They are called
// concurrently and must not block.
type Observer struct {
	Request func(RequestEvent)
	Cache   func(CacheEvent)
	File    func(FileEvent)
}

func (o Observer) request(event RequestEvent) {
	if o.Request != nil {
		o.Request(event)
	}
}

func (o Observer) cache(kind string, hit bool) {
	if o.Cache != nil {
		o.Cache(CacheEvent{Kind: kind, Hit: hit})
	}
}

func (o Observer) file(path string, err error) {
	if o.File != nil {
		o.File(FileEvent{Path: path, Err: err})
	}
}
