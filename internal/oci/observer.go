// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import "github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"

// The kinds of content in CacheEvent.
const (
	CacheManifest = "manifest"
	CacheBlob     = "blob"
)

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
	Request func(transport.RequestEvent)
	Cache   func(CacheEvent)
	File    func(FileEvent)
}

func (o Observer) request(event transport.RequestEvent) {
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
