// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Preparation is the work of this process for one release that may need too much memory: it fetches, unpacks and parses
// the artifact, and renders the chart with new values. The status of the release has the same preparation, so the next
// manager finds a preparation that did not end. A preparation is not a failed attempt, because the manager may have
// stopped for another reason. The zero value prepares nothing. It is not safe for concurrent use.
type Preparation struct {
	// key identifies the last preparation that this process has begun.
	key string
	// count is the count in the status. It is 0 if the preparation has ended.
	count int32
	// isRefetched is true if the last fetch failed.
	isRefetched bool
}

// preparationKey identifies a preparation. It is another preparation after a change of the desired state, after a new
// retry request, and for the manager of another shard.
func (s *Subject) preparationKey() string {
	return apiutil.HexDigest(apiutil.ArtifactIdentity(&s.Release.Spec.Artifact) + "/" + attemptDigest(s.Desired) + "/" +
		s.Release.Labels[addonsv1.ShardLabel] + "/" + s.retryRequest())
}

// interrupted returns the preparation in a status if a former manager began it and did not end it; otherwise nil.
func (p *Preparation) interrupted(key string, status *addonsv1.HelmOpReleaseStatus) *addonsv1.ReleasePreparation {
	known := status.Preparation
	if known == nil || known.Key != key || p.key == key {
		return nil
	}
	return known
}

// NextAt returns when a release may be prepared. It is the zero time unless a former manager began the same preparation
// and did not end it. The delay grows with the number of such managers. If the newest Helm revision is a running action
// from after the start of the preparation, the preparation had ended: Helm writes its record after the rendering. A
// preparation that began in the future does not delay the release: the clock of the former manager was ahead.
func (p *Preparation) NextAt(s *Subject, newest model.Record, now time.Time) time.Time {
	former := p.interrupted(s.preparationKey(), &s.Release.Status)
	if former == nil {
		return time.Time{}
	}
	if former.StartedAt.After(now) || newest.IsPendingSince(s.Desired, former.StartedAt.Time) {
		return time.Time{}
	}
	return former.StartedAt.Add(model.Backoff(int(former.Count), apiutil.Jitter(s.Release)))
}

// Begin begins a preparation. The caller must write the result into the status before it prepares the release. stored
// is the status in the API server. The result is nil if stored has this preparation already.
func (p *Preparation) Begin(s *Subject, stored *addonsv1.HelmOpReleaseStatus, now time.Time,
) *addonsv1.ReleasePreparation {
	key := s.preparationKey()
	if known := stored.Preparation; known != nil && known.Key == key && p.key == key && known.Count == p.count {
		return nil
	}
	count := int32(1)
	if former := p.interrupted(key, stored); former != nil {
		count = min(former.Count, 1<<20) + 1
	} else if p.key == key {
		// The release has waited for something since this process began the preparation.
		count = max(count, p.count)
	}
	*p = Preparation{key: key, count: count}
	return &addonsv1.ReleasePreparation{Key: key, Count: count, StartedAt: metav1.NewTime(now)}
}

// IsRefetched reports whether the last fetch of a release's artifact failed. A registry that does not respond needs no
// memory, so another fetch needs no preparation. Otherwise each retry would write it into the status and remove it.
func (p *Preparation) IsRefetched(s *Subject) bool {
	return p.isRefetched && p.key == s.preparationKey()
}

// FetchFailed removes the preparation from the status after a failed fetch. Then a restart of the manager does not
// delay the release.
func (p *Preparation) FetchFailed(s *Subject) {
	p.Pause(&s.Release.Status)
	p.isRefetched = p.key == s.preparationKey()
}

// Pause removes the preparation from the status, because the artifact is parsed and something else may follow before
// the rendering. If a rendering follows, it belongs to the same preparation.
func (p *Preparation) Pause(status *addonsv1.HelmOpReleaseStatus) { status.Preparation = nil }

// PauseOwn does the same as Pause for a preparation that this process has begun: the release waits for something else.
// A preparation that a former manager did not end stays.
func (p *Preparation) PauseOwn(status *addonsv1.HelmOpReleaseStatus) {
	if known := status.Preparation; known != nil && known.Key == p.key {
		p.Pause(status)
	}
}

// End removes the preparation from the status, because the rendering has ended or is not needed.
func (p *Preparation) End(status *addonsv1.HelmOpReleaseStatus) {
	status.Preparation, p.count, p.isRefetched = nil, 0, false
}
