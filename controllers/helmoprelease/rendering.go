// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// maxRenderedArtifacts is how many artifacts are remembered.
const maxRenderedArtifacts = 10_000

// renderedArtifacts are the digests of artifacts that this manager has rendered without being ended. The zero value is
// empty. It is safe for concurrent use.
type renderedArtifacts struct {
	mu      sync.Mutex
	digests *lru.LRU[string, struct{}]
}

func (a *renderedArtifacts) add(digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.digests == nil {
		// It fails only if the size is not positive.
		a.digests, _ = lru.NewLRU[string, struct{}](maxRenderedArtifacts, nil)
	}
	a.digests.Add(digest, struct{}{})
}

func (a *renderedArtifacts) has(digest string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.digests != nil && a.digests.Contains(digest)
}

// countRendering counts a try as failed before it begins if the artifact has never been rendered well: should rendering
// end the manager, for example because the memory of the node is used up, the next manager finds a failed try and
// waits. The outcome of the try replaces what is written here. It costs one write for each artifact that is new to this
// manager, for releases that were not made from it.
func (r *Reconciler) countRendering(ctx context.Context, p *releasePass, decision decide.Decision) error {
	status, digest := &p.before.Status, p.release.Spec.Artifact.Digest
	if !isRelease(decision.Action) || r.rendered.has(digest) ||
		status.Release != nil && status.Release.ArtifactDigest == digest {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	counted := p.before.DeepCopy()
	// A second ago: a record that the try makes, whose time has whole seconds, is certainly later and ends the count.
	p.writeTry(&counted.Status, decision.Failures+1, metav1.NewTime(r.now().Add(-time.Second)))
	counted.Status.LastError = fmt.Sprintf("the manager ended while it rendered the chart: the chart %s may need more "+
		"memory than there is", digest)
	err := r.client.Status().Patch(ctx, counted,
		client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("noting that a chart is rendered for the first time: %w", err)
	}
	p.before.ResourceVersion, p.release.ResourceVersion = counted.ResourceVersion, counted.ResourceVersion
	p.before.Status = *counted.Status.DeepCopy()
	return nil
}

// noteRendered remembers an artifact that was rendered: the try succeeded, or it failed after that.
func (r *Reconciler) noteRendered(p *releasePass, decision decide.Decision, result helmclient.Result, err error) {
	if isRelease(decision.Action) && (err == nil || result.StorageChanged) && !errors.Is(err, helmerr.ErrRenderLimit) {
		r.rendered.add(p.release.Spec.Artifact.Digest)
	}
}
