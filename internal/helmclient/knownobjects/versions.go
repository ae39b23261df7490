// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package knownobjects

import (
	"hash/maphash"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// versionBytes is the approximate memory for one version, in bytes.
const versionBytes = 192

// Versions holds the versions of the objects of one release. The keys are digests of the references to the objects. If
// two objects had the same digest, the precondition of a request would fail, and the object would be read.
type Versions map[uint64]knownObject

// knownObject is what HelmOp knows about an object of a release without reading it.
type knownObject struct {
	// ObjectVersion is the version that was observed last; its Number is 0 if none is known.
	model.ObjectVersion
	// wrote is the last write of HelmOp after which the object had the content of its manifest.
	wrote written
}

// Add adds the version of an object. It replaces the previous version even if its number is higher: after a restore of
// the cluster, numbers start again at a lower number.
func (v Versions) Add(ref inventory.Ref, version model.ObjectVersion) {
	if version.UID != "" && version.Number > 0 {
		v.merge(versionKey(ref), knownObject{ObjectVersion: version})
	}
}

// Of returns the version of an object; its Number is 0 if none is known.
func (v Versions) Of(ref inventory.Ref) model.ObjectVersion { return v[versionKey(ref)].ObjectVersion }

// AddApplied adds the version of an object of a release that was applied, and the manifest if the object has its
// content. It does not add the version for kinds with a generation: controllers change the status of their objects
// often, and each change increases the resource version.
func (v Versions) AddApplied(owner objectinfo.ReleaseName, ref inventory.Ref, object metav1.Object,
	manifest runtime.Object,
) {
	if inventory.DeletedWith(object) != owner.String() {
		return
	}
	number, isVersion := inventory.NumberOf(object)
	if isVersion {
		v.Add(ref, model.ObjectVersion{UID: object.GetUID(), Number: number, Generation: number})
	}
	if content := contentOfWrite(manifest, object); content != 0 && number > 0 {
		v.merge(versionKey(ref), knownObject{wrote: written{content: content, generation: number}})
	}
}

// merge adds newer knowledge about an object. A write stays known until the next write: it says what the object
// contains in one generation, and this does not change.
func (v Versions) merge(key uint64, newer knownObject) {
	known := v[key]
	if newer.Number > 0 {
		known.ObjectVersion = newer.ObjectVersion
	}
	if newer.wrote.content != 0 {
		known.wrote = newer.wrote
	}
	v[key] = known
}

// versionSeed is the seed of the digests.
var versionSeed = maphash.MakeSeed()

func versionKey(ref inventory.Ref) uint64 { return maphash.Comparable(versionSeed, ref) }

// versionsKey identifies a release of a cluster.
type versionsKey struct {
	cluster string
	release objectinfo.ReleaseName
}

// Cache holds the last known versions of the objects of releases. When it is full, it drops the least recently used
// releases. It is safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	entries *bytelru.Cache[versionsKey, Versions]
	// terms has a number for each cluster with a call of Get after its last call of Forget. lastTerm is the last number.
	terms    map[string]int
	lastTerm int
}

// Since identifies a point in time for a cluster of a Cache.
type Since struct{ term int }

// NewCache returns an empty cache; limit is its size in bytes.
func NewCache(limit int64) *Cache {
	clusterOf := func(key versionsKey) string { return key.cluster }
	return &Cache{entries: bytelru.NewGrouped[versionsKey, Versions](limit, clusterOf), terms: map[string]int{}}
}

// Get returns the versions of the objects of a release. It also returns the current point in time, for a later call of
// Add. The caller must not change the versions.
func (c *Cache) Get(cluster string, release objectinfo.ReleaseName) (Versions, Since) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, _ := c.entries.Get(versionsKey{cluster: cluster, release: release})
	if c.terms[cluster] == 0 {
		c.lastTerm++
		c.terms[cluster] = c.lastTerm
	}
	return known, Since{term: c.terms[cluster]}
}

// Add adds versions of objects of a release that were observed after a call of Get. They replace the previous versions
// of these objects. If the cluster was forgotten after the call of Get, Add does nothing: the action may belong to the
// forgotten cluster.
func (c *Cache) Add(cluster string, release objectinfo.ReleaseName, seen Versions, since Since) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(seen) == 0 || since.term != c.terms[cluster] {
		return
	}
	key := versionsKey{cluster: cluster, release: release}
	all := Versions{}
	known, _ := c.entries.Get(key)
	maps.Copy(all, known)
	for object, newer := range seen {
		all.merge(object, newer)
	}
	c.entries.Put(key, all, int64(len(all)*versionBytes))
}

// Remove drops the versions of a release.
func (c *Cache) Remove(cluster string, release objectinfo.ReleaseName) {
	c.entries.Remove(versionsKey{cluster: cluster, release: release})
}

// Forget drops the versions of all releases of a cluster.
func (c *Cache) Forget(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.terms, cluster)
	c.entries.RemoveGroup(cluster)
}
