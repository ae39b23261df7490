// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"compress/flate"
	"io"
	"strings"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

const (
	// MaxBytes is the maximum size of all cached manifests, compressed. A compressed manifest has some kilobytes, so the
	// cache holds thousands of releases.
	MaxBytes = 32 << 20
	// freeText is the size of a manifest, in bytes, up to which no memory is reserved to unpack it. Nearly all manifests
	// are smaller.
	freeText = 256 << 10
)

// Key identifies a release.
type Key struct{ Cluster, Namespace, Name string }

// Cache holds the compressed manifest of the newest Helm revision of releases. If the cache is full, it drops the
// least recently used manifests. It is safe for concurrent use.
type Cache struct {
	entries *bytelru.Cache[Key, packed]
}

type packed struct {
	revision int
	// size is the size of the manifest in bytes.
	size       int
	compressed []byte
}

// NewCache returns an empty cache. limit is its maximum size in bytes.
func NewCache(limit int64) *Cache {
	return &Cache{entries: bytelru.NewGrouped[Key, packed](limit, func(key Key) string { return key.Cluster })}
}

// Note caches the manifest of the newest revision that an action saved, if keep is true. It always drops older
// manifests of the release, because a reinstalled release starts again with revision 1.
func (c *Cache) Note(key Key, storage *records.RecordingDriver, keep bool) {
	if !storage.StorageChanged() {
		return
	}
	newest := storage.Newest()
	if newest == nil || !keep {
		c.entries.Remove(key)
		return
	}
	c.Put(key, newest.Version, newest.Manifest)
}

// compressors holds writers for reuse. The tables of a writer are larger than most manifests.
var compressors = sync.Pool{New: func() any {
	// The level is valid, so there is no error.
	writer, _ := flate.NewWriter(io.Discard, flate.BestSpeed)
	return writer
}}

func compress(text string) []byte {
	writer := compressors.Get().(*flate.Writer)
	defer compressors.Put(writer)
	var buffer bytes.Buffer
	writer.Reset(&buffer)
	// A write to memory does not fail.
	_, _ = io.WriteString(writer, text)
	_ = writer.Close()
	return bytes.Clone(buffer.Bytes())
}

// Get returns the manifest of a revision. Before it unpacks a large manifest, it calls hold to reserve as many bytes as
// the manifest has. The error is that of hold.
func (c *Cache) Get(key Key, revision int, hold func(bytes int64) error) (manifest string, ok bool, err error) {
	entry, ok := c.entries.Get(key)
	if !ok || entry.revision != revision {
		return "", false, nil
	}
	if entry.size > freeText {
		if err := hold(int64(entry.size)); err != nil {
			return "", false, err
		}
	}
	var text strings.Builder
	text.Grow(entry.size)
	_, err = io.Copy(&text, flate.NewReader(bytes.NewReader(entry.compressed)))
	return text.String(), err == nil, nil
}

// Put replaces the cached manifest of a release.
func (c *Cache) Put(key Key, revision int, manifest string) {
	entry := packed{revision: revision, size: len(manifest), compressed: compress(manifest)}
	c.entries.Put(key, entry, int64(len(entry.compressed)+len(key.Cluster)+len(key.Namespace)+len(key.Name)))
}

// Forget drops all manifests of a cluster.
func (c *Cache) Forget(cluster string) {
	c.entries.RemoveGroup(cluster)
}
