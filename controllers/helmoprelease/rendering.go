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

// maxRenderedArtifacts is the number of digests in renderedArtifacts at most.
const maxRenderedArtifacts = 10_000

// renderedArtifacts are the digests of artifacts that this process has rendered without a crash. The zero value is
// empty. It is safe for concurrent use.
type renderedArtifacts struct {
	mu      sync.Mutex
	digests *lru.LRU[string, struct{}]
}

func (a *renderedArtifacts) add(digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.digests == nil {
		// NewLRU fails only if the size is not positive.
		a.digests, _ = lru.NewLRU[string, struct{}](maxRenderedArtifacts, nil)
	}
	a.digests.Add(digest, struct{}{})
}

func (a *renderedArtifacts) has(digest string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.digests != nil && a.digests.Contains(digest)
}

// countAttempt counts an attempt as failed before it begins, if this process has not rendered the artifact before. If
// the rendering then crashes the manager, for example because the node has no memory left, the next manager finds a
// failed attempt and waits. The result of the attempt replaces the count. The write takes place once for each artifact
// that is new to this process. It does not take place for releases that were made from the same artifact.
func (r *Reconciler) countAttempt(ctx context.Context, p *releasePass, decision decide.Decision) error {
	status, digest := &p.before.Status, p.release.Spec.Artifact.Digest
	if !isRelease(decision.Action) || r.rendered.has(digest) ||
		status.Release != nil && status.Release.ArtifactDigest == digest {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	counted := p.before.DeepCopy()
	// One second ago: times in records have whole seconds, and a record of the attempt must be later to replace the count.
	p.writeAttempt(&counted.Status, decision.Failures+1, metav1.NewTime(r.now().Add(-time.Second)))
	counted.Status.LastError = fmt.Sprintf("the manager stopped while it rendered the chart: artifact %s may need more "+
		"memory than the manager has", digest)
	err := r.client.Status().Patch(ctx, counted,
		client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("counting the attempt before the artifact is rendered for the first time: %w", err)
	}
	p.before.ResourceVersion, p.release.ResourceVersion = counted.ResourceVersion, counted.ResourceVersion
	p.before.Status = *counted.Status.DeepCopy()
	return nil
}

// noteRendered records an artifact that was rendered: the action succeeded, or failed after the rendering.
func (r *Reconciler) noteRendered(p *releasePass, decision decide.Decision, result helmclient.Result, err error) {
	if isRelease(decision.Action) && (err == nil || result.StorageChanged) && !errors.Is(err, helmerr.ErrRenderLimit) {
		r.rendered.add(p.release.Spec.Artifact.Digest)
	}
}
