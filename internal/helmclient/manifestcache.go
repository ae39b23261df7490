// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"bytes"
	"compress/flate"
	"io"
	"strings"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// maxManifestBytes is the maximum size of all cached manifests, compressed. A compressed manifest takes some kilobytes,
// so this is enough for thousands of releases.
const maxManifestBytes = 32 << 20

// manifestKey identifies a release.
type manifestKey struct{ cluster, namespace, name string }

// manifestCache holds compressed manifests of the newest revisions that Act created. When it is full, it drops the
// least recently used manifests. It is safe for concurrent use.
type manifestCache struct {
	entries *bytelru.Cache[manifestKey, manifestEntry]
}

type manifestEntry struct {
	revision   int
	compressed []byte
}

func newManifestCache(limit int64) *manifestCache {
	return &manifestCache{entries: bytelru.New[manifestKey, manifestEntry](limit)}
}

// note caches the manifest of the newest revision that an action saved. It drops earlier manifests of the release,
// because a reinstalled release starts again with revision 1.
func (c *manifestCache) note(target model.Target, desired model.Desired, storage *records.RecordingDriver) {
	if !storage.StorageChanged() {
		return
	}
	key := manifestKey{cluster: target.Key, namespace: desired.Namespace, name: desired.Name}
	newest := storage.Newest()
	if newest == nil {
		c.entries.Remove(key)
		return
	}
	c.put(key, newest.Version, newest.Manifest)
}

// compressors holds writers for reuse, because their tables are larger than most manifests.
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

// get returns the manifest of a revision.
func (c *manifestCache) get(key manifestKey, revision int) (manifest string, ok bool) {
	entry, ok := c.entries.Get(key)
	if !ok || entry.revision != revision {
		return "", false
	}
	var text strings.Builder
	if _, err := io.Copy(&text, flate.NewReader(bytes.NewReader(entry.compressed))); err != nil {
		return "", false
	}
	return text.String(), true
}

// put replaces the cached manifest of a release.
func (c *manifestCache) put(key manifestKey, revision int, manifest string) {
	entry := manifestEntry{revision: revision, compressed: compress(manifest)}
	c.entries.Put(key, entry, int64(len(entry.compressed)+len(key.cluster)+len(key.namespace)+len(key.name)))
}

// forget drops all manifests of a cluster.
func (c *manifestCache) forget(cluster string) {
	c.entries.RemoveIf(func(key manifestKey) bool { return key.cluster == cluster })
}
