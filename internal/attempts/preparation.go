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

// Preparation is the artifact that this process prepares for one release: it fetches, unpacks and parses the artifact.
// The status of the release has the same preparation, so the next manager finds a preparation that did not end. The
// zero value prepares nothing. It is not safe for concurrent use.
type Preparation struct {
	key string
}

// preparationKey identifies a preparation. After a new retry request, it is another preparation.
func (s *Subject) preparationKey() string {
	return apiutil.HexDigest(apiutil.ArtifactIdentity(&s.Release.Spec.Artifact) + "/" + s.retryRequest())
}

// interrupted returns the preparation of the same artifact that a former manager began and did not end; nil if there is
// none.
func (p *Preparation) interrupted(s *Subject) *addonsv1.ArtifactPreparation {
	known := s.Release.Status.Preparation
	if known == nil || known.Key != s.preparationKey() || p.key == known.Key {
		return nil
	}
	return known
}

// NextAt returns when the artifact of a release may be prepared. It is the zero time unless a former manager began the
// same preparation and did not end it. The delay grows with the number of such managers.
func (p *Preparation) NextAt(s *Subject) time.Time {
	former := p.interrupted(s)
	if former == nil {
		return time.Time{}
	}
	return former.StartedAt.Add(model.Backoff(int(former.Count), apiutil.Jitter(s.Release)))
}

// Begin sets in the status that the preparation begins. The result is true if the caller must write the status before
// it prepares the artifact. It is false if this process has begun the preparation before.
func (p *Preparation) Begin(s *Subject, now time.Time) bool {
	key, status := s.preparationKey(), &s.Release.Status
	if known := status.Preparation; known != nil && known.Key == key && p.key == key {
		return false
	}
	count := int32(1)
	if former := p.interrupted(s); former != nil {
		count += former.Count
	}
	status.Preparation = &addonsv1.ArtifactPreparation{Key: key, Count: min(count, 1<<20), StartedAt: metav1.NewTime(now)}
	p.key = key
	return true
}

// End removes the preparation from the status, because the artifact is parsed.
func (p *Preparation) End(status *addonsv1.HelmOpReleaseStatus) {
	status.Preparation, p.key = nil, ""
}
