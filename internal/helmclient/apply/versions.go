// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"hash/maphash"
	"maps"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// versionBytes is about the memory of one version, in bytes.
const versionBytes = 160

// Versions holds versions of the objects of one release, by the digests of their references. If two objects had the
// same digest, the precondition of a request would fail.
type Versions map[uint64]model.ObjectVersion

// Add adds the version of an object, unless a newer version is known.
func (v Versions) Add(ref inventory.Ref, version model.ObjectVersion) {
	key := versionKey(ref)
	if version.UID != "" && version.Number > v[key].Number {
		v[key] = version
	}
}

// versionSeed is the seed of the digests.
var versionSeed = maphash.MakeSeed()

func versionKey(ref inventory.Ref) uint64 { return maphash.Comparable(versionSeed, ref) }

// versionsKey identifies a release of a cluster.
type versionsKey struct {
	cluster string
	release ReleaseName
}

// VersionCache holds the newest known versions of the objects of releases. When it is full, it drops the least recently
// used releases. It is safe for concurrent use.
type VersionCache struct {
	entries *bytelru.Cache[versionsKey, Versions]
}

// NewVersionCache returns an empty cache; limit is its size in bytes.
func NewVersionCache(limit int64) *VersionCache {
	return &VersionCache{entries: bytelru.New[versionsKey, Versions](limit)}
}

// Get returns the versions of the objects of a release. The caller must not change them.
func (c *VersionCache) Get(cluster string, release ReleaseName) Versions {
	known, _ := c.entries.Get(versionsKey{cluster: cluster, release: release})
	return known
}

// Add adds the versions of objects of a release. The newer version of an object stays.
func (c *VersionCache) Add(cluster string, release ReleaseName, applied Versions) {
	if len(applied) == 0 {
		return
	}
	all := maps.Clone(applied)
	for key, known := range c.Get(cluster, release) {
		if known.Number > all[key].Number {
			all[key] = known
		}
	}
	c.entries.Put(versionsKey{cluster: cluster, release: release}, all, int64(len(all)*versionBytes))
}

// Remove drops the versions of a release.
func (c *VersionCache) Remove(cluster string, release ReleaseName) {
	c.entries.Remove(versionsKey{cluster: cluster, release: release})
}

// Forget drops the versions of all releases of a cluster.
func (c *VersionCache) Forget(cluster string) {
	c.entries.RemoveIf(func(key versionsKey) bool { return key.cluster == cluster })
}

// noteVersion stores the version of an object that was applied. It ignores kinds with a generation: controllers write
// the status of their objects all the time, and each write changes the resource version.
func (k *Client) noteVersion(ref inventory.Ref, object metav1.Object, hasGeneration bool) {
	if !hasGeneration && inventory.DeletedWith(object) == k.Owner.String() {
		k.versions.Add(ref, model.ObjectVersion{UID: object.GetUID(), Number: inventory.ResourceVersionOf(object)})
	}
}

// AppliedVersions returns the versions of the objects that this action applied.
func (k *Client) AppliedVersions() Versions {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.versions)
}

// deleteKnown deletes an object in its known version without reading it. It returns false if no version is known, or if
// the object is no longer in this version.
func (k *Client) deleteKnown(info *resource.Info, policy metav1.DeletionPropagation) (done bool, err error) {
	known, ok := k.Known[versionKey(refOf(info))]
	if !ok {
		return false, nil
	}
	options := &metav1.DeleteOptions{PropagationPolicy: &policy,
		Preconditions: &metav1.Preconditions{UID: &known.UID, ResourceVersion: new(strconv.FormatInt(known.Number, 10))}}
	_, err = resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name, options)
	return !apierrors.IsConflict(err), err
}
