// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import "time"

// The kinds of request in RequestEvent.
const (
	RequestManifest = "manifest"
	RequestBlob     = "blob"
	RequestTags     = "tags"
	// RequestReferrers is a request for what refers to a manifest, its signatures
	// for example.
	RequestReferrers = "referrers"
	RequestToken     = "token"
	// RequestRedirect is a request to where a registry redirected to, its storage
	// for example.
	RequestRedirect = "redirect"
)

// The kinds of content in CacheEvent.
const (
	CacheManifest = "manifest"
	CacheBlob     = "blob"
)

// RequestEvent describes one HTTP request, each attempt on its own.
type RequestEvent struct {
	// Registry is the host[:port] that is asked: that of the source's URL, or of a
	// mirror. It is so too for requests that a registry sent elsewhere, so that it
	// can be a metric's label.
	Registry string
	// Kind is one of the Request constants.
	Kind string
	// Method is the HTTP method.
	Method string
	// Status is the HTTP status, 0 if there was no answer.
	Status int
	// Bytes is how much of the body was read.
	Bytes int64
	// Duration is the time from the request to the end of the body.
	Duration time.Duration
}

// CacheEvent describes one look into the content store.
type CacheEvent struct {
	// Kind is one of the Cache constants.
	Kind string
	// Hit is whether the content was there and intact.
	Hit bool
}

// FileEvent says that a file of Options was read and is not usable; what it was
// before holds on, and what needs one that never was usable fails. Each failure is
// told once.
type FileEvent struct {
	Path string
	// Err names the file and what is wrong with it, and holds no secrets.
	Err error
}

// Observer is told what happens, for metrics and logs. Its functions may be nil, are
// called from several goroutines and must not block.
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
