// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import "github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"

// The kinds of content for CacheEvent.Kind.
const (
	CacheManifest = "manifest"
	CacheBlob     = "blob"
)

// CacheEvent describes one lookup in the content store.
type CacheEvent struct {
	// Kind is one of the Cache constants.
	Kind string
	// Hit is true if the store had the content and the content was intact.
	Hit bool
}

// FileEvent reports an invalid file of Options. If the file was valid before, its last valid content stays in use. If
// it was never valid, calls that need the file fail. Each failure is reported once.
type FileEvent struct {
	Path string
	// Err names the file and the cause. It contains no secrets.
	Err error
}

// Observer receives events for metrics and logs. Its functions may be nil. They are called concurrently, and must not
// block.
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
