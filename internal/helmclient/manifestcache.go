// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"bytes"
	"compress/flate"
	"container/list"
	"io"
	"strings"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

const (
	// maxManifestBytes bounds the manifests in memory, compressed. A manifest takes some kilobytes compressed, so this
	// is enough for thousands of releases.
	maxManifestBytes = 32 << 20
	// manifestOverhead is about what an entry takes beside its manifest.
	manifestOverhead = 256
)

// manifestKey identifies a release.
type manifestKey struct{ cluster, namespace, name string }

// manifestCache holds the manifest of the newest revision of releases, as far as Act made it, compressed; the ones that
// were not used for the longest time go first. It is safe for concurrent use.
type manifestCache struct {
	limit int

	mu    sync.Mutex
	size  int
	order *list.List
	known map[manifestKey]*list.Element
}

type manifestEntry struct {
	key        manifestKey
	revision   int
	compressed []byte
}

func (e *manifestEntry) size() int {
	return len(e.compressed) + len(e.key.cluster) + len(e.key.namespace) + len(e.key.name) + manifestOverhead
}

func newManifestCache(limit int) *manifestCache {
	return &manifestCache{limit: limit, order: list.New(), known: map[manifestKey]*list.Element{}}
}

// note keeps what an action saved. The manifests of before are forgotten in any case: a release that is installed anew counts
// its revisions from one again.
func (c *manifestCache) note(target model.Target, desired model.Desired, storage *records.RecordingDriver) {
	if !storage.StorageChanged() {
		return
	}
	key := manifestKey{cluster: target.Key, namespace: desired.Namespace, name: desired.Name}
	newest := storage.Newest()
	if newest == nil {
		c.drop(key)
		return
	}
	c.put(key, newest.Version, newest.Manifest)
}

// compressors are kept for their tables, which are larger than most manifests.
var compressors = sync.Pool{New: func() any {
	// The level is a valid one.
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

// get returns the manifest of a revision.
func (c *manifestCache) get(key manifestKey, revision int) (manifest string, ok bool) {
	c.mu.Lock()
	element, ok := c.known[key]
	if !ok || element.Value.(*manifestEntry).revision != revision {
		c.mu.Unlock()
		return "", false
	}
	c.order.MoveToFront(element)
	compressed := element.Value.(*manifestEntry).compressed
	c.mu.Unlock()
	var text strings.Builder
	if _, err := io.Copy(&text, flate.NewReader(bytes.NewReader(compressed))); err != nil {
		return "", false
	}
	return text.String(), true
}

// put keeps a manifest in place of the one that was kept of the release.
func (c *manifestCache) put(key manifestKey, revision int, manifest string) {
	entry := &manifestEntry{key: key, revision: revision, compressed: compress(manifest)}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	if entry.size() > c.limit {
		return
	}
	c.known[key] = c.order.PushFront(entry)
	c.size += entry.size()
	for c.size > c.limit {
		c.remove(c.order.Back().Value.(*manifestEntry).key)
	}
}

func (c *manifestCache) drop(key manifestKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// forget drops all of a cluster.
func (c *manifestCache) forget(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.known {
		if key.cluster == cluster {
			c.remove(key)
		}
	}
}

// remove drops a manifest; the caller holds the lock.
func (c *manifestCache) remove(key manifestKey) {
	element, ok := c.known[key]
	if !ok {
		return
	}
	c.size -= element.Value.(*manifestEntry).size()
	c.order.Remove(element)
	delete(c.known, key)
}
