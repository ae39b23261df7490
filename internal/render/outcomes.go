// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// outcomeBytes and referenceBytes are the sizes of an outcome and of a reference in it, without their texts. The first
// includes the memory of the map for an outcome.
const outcomeBytes, referenceBytes = 256, 48

// outcomeKey includes the digest of the program: during a rollout, two HelmOp revisions are rendered for one Cluster.
type outcomeKey struct {
	helmOp, cluster types.UID
	program         string
}

// cachedOutcome is an outcome and the digest of the inputs from which it was rendered.
type cachedOutcome struct {
	version [sha256.Size]byte
	outcome
	// bytes is the size of the outcome and its key.
	bytes int64
}

// outcomes caches outcomes up to a number of bytes. If the cache is full, it drops arbitrary outcomes, and not the
// least recently used: each reconciliation of a HelmOp needs the outcomes of all Clusters in the same order. So the
// least recently used outcome is the next that is needed, and a cache that is a little too small would always have the
// wrong outcomes. It is safe for concurrent use.
type outcomes struct {
	limit int64

	mu    sync.Mutex
	kept  map[outcomeKey]*cachedOutcome
	bytes int64
}

// newOutcomes returns an empty cache with a limit in bytes.
func newOutcomes(limit int64) *outcomes {
	return &outcomes{limit: limit, kept: map[outcomeKey]*cachedOutcome{}}
}

// get returns the outcome of a key; nil if there is none. The caller must not change it.
func (c *outcomes) get(key outcomeKey) *cachedOutcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[key]
}

// put caches an outcome. It replaces the previous outcome of the key. It does not cache an outcome larger than the
// limit.
func (c *outcomes) put(key outcomeKey, version [sha256.Size]byte, rendered outcome) {
	added := &cachedOutcome{version: version, outcome: rendered, bytes: key.size() + rendered.size()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
	if added.bytes > c.limit {
		return
	}
	// The order of a map is random.
	for other := range c.kept {
		if c.bytes+added.bytes <= c.limit {
			break
		}
		c.drop(other)
	}
	c.kept[key] = added
	c.bytes += added.bytes
}

// drop removes the outcome of a key, if there is one. The caller holds mu.
func (c *outcomes) drop(key outcomeKey) {
	if dropped := c.kept[key]; dropped != nil {
		delete(c.kept, key)
		c.bytes -= dropped.bytes
	}
}

// size returns the size of a key in bytes, without the texts that the outcomes of a HelmOp share.
func (k outcomeKey) size() int64 { return int64(len(k.cluster)) }

// size returns the size of an outcome in bytes. An outcome may have a thousand references with long names.
func (o *outcome) size() int64 {
	size := outcomeBytes + len(o.Release.Name) + len(o.Release.Namespace) + len(o.ValuesDigest) +
		len(o.PostRenderDigest) + cap(o.References)*referenceBytes
	for _, ref := range o.References {
		size += len(ref.Kind) + len(ref.Name) + len(ref.version)
	}
	if o.Err != nil {
		size += len(o.Err.Error())
	}
	return int64(size)
}
