// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"errors"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// maxRenderings is the number of digests in Rendered at most.
const maxRenderings = 10_000

// Rendered are the digests of renderings that this process has made without a crash. The zero value is empty. It is
// safe for concurrent use.
type Rendered struct {
	mu      sync.Mutex
	digests *lru.LRU[string, struct{}]
}

// RenderingOf returns the digest of what an action renders: the artifact, the values, the options and the
// post-rendering. Releases in several Clusters may have the same digest.
func RenderingOf(desired *model.Desired) string { return model.AttemptDigest(*desired) }

// Add records the digest of a rendering that ended.
func (a *Rendered) Add(digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.digests == nil {
		// NewLRU fails only if the size is not positive.
		a.digests, _ = lru.NewLRU[string, struct{}](maxRenderings, nil)
	}
	a.digests.Add(digest, struct{}{})
}

// IsNew reports whether this process has not made a rendering before.
func (a *Rendered) IsNew(digest string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.digests == nil || !a.digests.Contains(digest)
}

// IsFirst reports whether an action renders something that this process has not rendered before. The status does not
// count: if the installed release has the same artifact, other values or options may still render more.
func (a *Rendered) IsFirst(action model.Action, desired *model.Desired) bool {
	return action.RendersChart() && a.IsNew(RenderingOf(desired))
}

// Note records a rendering that ended: the action succeeded, or failed after the rendering. An adoption that would
// change the release is refused after the rendering, without a change in the storage. A rendering that the chart
// rejected is not recorded: in another Cluster, the same chart and values may render more.
func (a *Rendered) Note(action model.Action, desired *model.Desired, result helmclient.Result, err error) {
	isRendered := err == nil || result.StorageChanged || errors.Is(err, helmerr.ErrWouldChange)
	if action.RendersChart() && isRendered && !errors.Is(err, helmerr.ErrRenderLimit) {
		a.Add(RenderingOf(desired))
	}
}
