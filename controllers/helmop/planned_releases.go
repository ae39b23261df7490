// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// maxPlannedReleases bounds what is remembered of children, some 300 bytes each.
const maxPlannedReleases = 1 << 15

// plannedReleases remember what children are told, as the plan takes it, by UID and generation: to tell it anew takes
// digests of most of their specs, in every pass. Nil remembers nothing. It is safe for concurrent use.
type plannedReleases struct {
	byUID *lru.Cache[types.UID, assignedRelease]
}

type assignedRelease struct {
	generation int64
	release    *rollout.Release
}

// newPlannedReleases remembers no release.
func newPlannedReleases() *plannedReleases {
	byUID, _ := lru.New[types.UID, assignedRelease](maxPlannedReleases) // It fails only if the size is not positive.
	return &plannedReleases{byUID: byUID}
}

// of is the plannedRelease of a child. It must not be changed.
func (m *plannedReleases) of(child *addonsv1.HelmOpRelease) (*rollout.Release, error) {
	if m == nil || child.UID == "" {
		return plannedRelease(&child.Spec)
	}
	if known, ok := m.byUID.Get(child.UID); ok && known.generation == child.Generation {
		return known.release, nil
	}
	release, err := plannedRelease(&child.Spec)
	if err == nil {
		m.byUID.Add(child.UID, assignedRelease{generation: child.Generation, release: release})
	}
	return release, err
}
