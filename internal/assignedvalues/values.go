// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package assignedvalues

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// ErrOutdated means that the HelmOp has a newer desired state, which is not assigned to the release yet.
var ErrOutdated = errors.New("the HelmOp is about to update this release")

// Renderer renders the values that are assigned to releases.
type Renderer struct {
	// Client reads from the cache, and Live from the API server.
	Client, Live client.Reader

	Renderer *render.Renderer
}

// Values returns the rendered values whose digests are in the spec of a release. It first renders the current HelmOp.
// If the digests differ and the HelmOp will not update the release, it renders the HelmOp at the revision of the
// release. object and cluster are the same Cluster. The error is [ErrOutdated] if the HelmOp will soon update the
// release.
func (r *Renderer) Values(ctx context.Context, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp,
	object *unstructured.Unstructured,
	cluster *clusterv1.Cluster,
) (rendered templating.Result, secretValues []any, err error) {
	rendered, secretValues, err = r.Renderer.Values(ctx, helmOp, object, cluster)
	if err == nil && hasAssignedDigests(release, &rendered) {
		return rendered, secretValues, nil
	}
	stays, liveErr := r.staysAtRevision(ctx, release, helmOp)
	switch {
	case liveErr != nil:
		return rendered, nil, liveErr
	case !stays && err != nil:
		return rendered, nil, err
	case !stays:
		return rendered, nil, ErrOutdated
	}
	revision, err := r.helmOpAtRevision(ctx, release, helmOp)
	if err != nil {
		return rendered, nil, err
	}
	rendered, secretValues, err = r.Renderer.Values(ctx, revision, object, cluster)
	if err == nil && !hasAssignedDigests(release, &rendered) {
		err = outdatedError(release, helmOp, revision)
	}
	return rendered, secretValues, err
}

// hasAssignedDigests reports whether rendered values have the digests in the spec of the release.
func hasAssignedDigests(release *addonsv1.HelmOpRelease, rendered *templating.Result) bool {
	return rendered.Digest == release.Spec.ValuesDigest && rendered.PostRenderDigest == release.Spec.PostRenderDigest
}

// staysAtRevision reports whether a release stays at its HelmOp revision. It does if the HelmOp was reconciled after
// the last change of its spec, and has not assigned another spec to the release. It reads the release from the API
// server, because the cache may be stale.
func (r *Renderer) staysAtRevision(ctx context.Context, release *addonsv1.HelmOpRelease,
	helmOp *addonsv1.HelmOp,
) (bool, error) {
	if apiutil.RevisionOf(release) == 0 || helmOp.Status.ObservedGeneration != helmOp.Generation {
		return false, nil
	}
	current := &addonsv1.HelmOpRelease{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(release), current); err != nil {
		return false, fmt.Errorf("%w: reading the release again: %w", render.ErrObjectRead, err)
	}
	return current.Generation == release.Generation, nil
}

// helmOpAtRevision returns the HelmOp of a release with the spec of the HelmOp revision that is assigned to the
// release.
func (r *Renderer) helmOpAtRevision(ctx context.Context, release *addonsv1.HelmOpRelease,
	helmOp *addonsv1.HelmOp,
) (*addonsv1.HelmOp, error) {
	if apiutil.RevisionOf(release) == 0 {
		return helmOp, nil
	}
	revision, err := r.Revision(ctx, release, helmOp)
	if err != nil {
		return nil, err
	}
	return revisionstore.WithRevision(helmOp, revision), nil
}

// Revision returns the HelmOp revision that is assigned to a release. The error wraps [ErrOutdated] if the revision
// does not exist.
func (r *Renderer) Revision(ctx context.Context, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) (
	*addonsv1.HelmOpRevision, error,
) {
	number := apiutil.RevisionOf(release)
	revision, err := revisionstore.ReadRevision(ctx, r.Client, helmOp, number)
	if apierrors.IsNotFound(err) {
		// A revision may be assigned to the release before the cache has the revision.
		revision, err = revisionstore.ReadRevision(ctx, r.Live, helmOp, number)
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("HelmOp revision %d, which is assigned to the release, does not exist: %w", number,
			ErrOutdated)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", render.ErrObjectRead, err)
	}
	return revision, nil
}

// outdatedError returns why the rendered values of a release do not have the assigned digests. A HelmOp revision does
// not hold the content of the Secrets and ConfigMaps that it refers to, so their values may have changed.
func outdatedError(release *addonsv1.HelmOpRelease, helmOp, revision *addonsv1.HelmOp) error {
	number, rollout := apiutil.RevisionOf(release), helmOp.Status.Rollout
	if number == 0 || rollout == nil || rollout.Revision == number || !references.HasFixedValues(revision) {
		return ErrOutdated
	}
	return fmt.Errorf("%w, or HelmOp revision %d cannot be rendered any more, because an object in spec.valuesFrom "+
		"has changed; HelmOp then changes the release only after another HelmOp revision is assigned", ErrOutdated, number)
}
