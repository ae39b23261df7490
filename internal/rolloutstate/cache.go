// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rolloutstate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brieflru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// maxPlannedReleases is the largest number of children in the cache. Each takes about 400 bytes. A conversion takes
// about 6 µs, so it is enough to keep the children for plannedKept: the passes of a rollout follow each other faster.
const (
	maxPlannedReleases = 1 << 15
	plannedKept        = 15 * time.Second
)

// Cache caches the specs of children in the form of the plan for a short time, by UID and generation. Without the
// cache, every pass of a rollout would compute the digests of most specs again. Nil caches nothing. It is safe for
// concurrent use.
type Cache struct {
	byUID *brieflru.Cache[types.UID, assignedRelease]
}

type assignedRelease struct {
	generation int64
	release    *rollout.Release
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{byUID: brieflru.New[types.UID, assignedRelease](maxPlannedReleases, plannedKept)}
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
