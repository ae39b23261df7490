// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"errors"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// maxRenderedArtifacts is the number of digests in Rendered at most.
const maxRenderedArtifacts = 10_000

// Rendered are the digests of artifacts that this process has rendered without a crash. The zero value is empty. It is
// safe for concurrent use.
type Rendered struct {
	mu      sync.Mutex
	digests *lru.LRU[string, struct{}]
}

// Add records an artifact that was rendered.
func (a *Rendered) Add(digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.digests == nil {
		// NewLRU fails only if the size is not positive.
		a.digests, _ = lru.NewLRU[string, struct{}](maxRenderedArtifacts, nil)
	}
	a.digests.Add(digest, struct{}{})
}

func (a *Rendered) has(digest string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.digests != nil && a.digests.Contains(digest)
}

// IsFirst reports whether an action renders an artifact that this process has not rendered before. It does not count an
// artifact from which the release was made, according to its status: otherwise each stop of a manager during an upgrade
// of values would count as a failure of the release, and spend the failure budget of the rollout.
func (a *Rendered) IsFirst(action model.Action, digest string, status *addonsv1.HelmOpReleaseStatus) bool {
	return action.RendersChart() && a.IsNew(digest, status)
}

// IsNew reports whether this process has not rendered an artifact before. If the status shows that the release was made
// from the artifact, the artifact is not new.
func (a *Rendered) IsNew(digest string, status *addonsv1.HelmOpReleaseStatus) bool {
	return !a.has(digest) && (status.Release == nil || status.Release.ArtifactDigest != digest)
}

// Note records an artifact that was rendered: the action succeeded, or failed after the rendering. An adoption that
// would change the release is refused after the rendering, without a change in the storage. A rendering that the chart
// rejected is not recorded: another Cluster or other values may render more of the chart.
func (a *Rendered) Note(action model.Action, digest string, result helmclient.Result, err error) {
	isRendered := err == nil || result.StorageChanged || errors.Is(err, helmerr.ErrWouldChange)
	if action.RendersChart() && isRendered && !errors.Is(err, helmerr.ErrRenderLimit) {
		a.Add(digest)
	}
}
