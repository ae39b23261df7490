// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rolloutstate

import (
	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// maxPlannedReleases is the largest number of children in the cache. Each takes about 300 bytes.
const maxPlannedReleases = 1 << 15

// Cache caches the specs of children in the form of the plan, by UID and generation. Without the cache, every pass
// would compute the digests of most specs again. Nil caches nothing. It is safe for concurrent use.
type Cache struct {
	byUID *lru.Cache[types.UID, assignedRelease]
}

type assignedRelease struct {
	generation int64
	release    *rollout.Release
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	byUID, _ := lru.New[types.UID, assignedRelease](maxPlannedReleases) // fails only if the size is not positive
	return &Cache{byUID: byUID}
}

// Of returns the spec of a child in the type of the plan. The caller must not change it.
func (m *Cache) Of(child *addonsv1.HelmOpRelease) (*rollout.Release, error) {
	if m == nil || child.UID == "" {
		return Release(&child.Spec)
	}
	if known, ok := m.byUID.Get(child.UID); ok && known.generation == child.Generation {
		return known.release, nil
	}
	release, err := Release(&child.Spec)
	if err == nil {
		m.byUID.Add(child.UID, assignedRelease{generation: child.Generation, release: release})
	}
	return release, err
}
