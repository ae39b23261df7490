// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisionstore

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
)

// HelmOpAt returns a HelmOp with the spec of a revision. Some fields keep their current values, for example the access
// to the artifact, the required signatures and the deletion policy: see WithRevision. Revision 0 is the current HelmOp.
func HelmOpAt(ctx context.Context, reader client.Reader, helmOp *addonsv1.HelmOp,
	number int64,
) (*addonsv1.HelmOp, error) {
	if number == 0 {
		return helmOp, nil
	}
	revision, err := ReadRevision(ctx, reader, helmOp, number)
	if err != nil {
		return nil, err
	}
	return WithRevision(helmOp, revision), nil
}

// ReadRevision reads a revision of a HelmOp. It completes the fields that earlier revisions store.
func ReadRevision(ctx context.Context, reader client.Reader, helmOp *addonsv1.HelmOp,
	number int64,
) (*addonsv1.HelmOpRevision, error) {
	get := func(number int64) (*addonsv1.HelmOpRevision, error) {
		revision := &addonsv1.HelmOpRevision{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: helmOp.Namespace,
			Name: apiutil.RevisionName(helmOp.Name, number)}, revision); err != nil {
			return nil, fmt.Errorf("reading HelmOp revision %d of the HelmOp: %w", number, err)
		}
		return revision, nil
	}
	revision, err := get(number)
	if err != nil {
		return nil, err
	}
	parts := []*addonsv1.HelmOpRevision{revision}
	for _, holder := range revisions.Holders(&revision.Spec) {
		held, err := get(holder)
		if err != nil {
			return nil, fmt.Errorf("completing HelmOp revision %d, which shares fields with an earlier HelmOp revision: "+
				"%w", number, err)
		}
		parts = append(parts, held)
	}
	revisions.Complete(parts)
	return revision, nil
}

// WithRevision returns a HelmOp with the spec of a revision. The fields of [revisions.CopyPresent], and all fields of
// source except the reference, keep their current values.
func WithRevision(helmOp *addonsv1.HelmOp, revision *addonsv1.HelmOpRevision) *addonsv1.HelmOp {
	then := helmOp.DeepCopy()
	now := then.Spec
	then.Spec = *revision.Spec.HelmOp.DeepCopy()
	revisions.CopyPresent(&then.Spec, &now)
	then.Spec.Source = now.Source
	then.Spec.Source.Ref = revision.Spec.HelmOp.Source.Ref
	return then
}

// ArtifactsOf returns a function that returns the artifacts of the references of a revision.
func ArtifactsOf(
	revision *addonsv1.HelmOpRevision,
) func(addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
	return func(ref addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
		if ref == revision.Spec.HelmOp.Source.Ref && revision.Spec.Artifact != nil {
			return revision.Spec.Artifact, nil
		}
		for i := range revision.Spec.Artifacts {
			if revision.Spec.Artifacts[i].Reference == ref {
				return &revision.Spec.Artifacts[i].ResolvedArtifact, nil
			}
		}
		return nil, &reasons.UnresolvedError{
			Reason:  addonsv1.ArtifactNotFoundReason,
			Message: fmt.Sprintf("the reference was not resolved when HelmOp revision %d was created", revision.Spec.Number),
		}
	}
}

// ArtifactOfSource returns the artifact in a revision for a reference of a source. It returns nil if the revision is
// nil, if it has no artifact for the reference, or if it is for another source.
func ArtifactOfSource(revision *addonsv1.HelmOpRevision, source *addonsv1.ArtifactSource,
	ref addonsv1.ArtifactReference,
) *addonsv1.ResolvedArtifact {
	if revision == nil {
		return nil
	}
	then := &revision.Spec.HelmOp.Source
	if then.URL != source.URL || then.Chart != source.Chart || apiutil.Selected(then) != apiutil.Selected(source) {
		return nil
	}
	if recorded, err := ArtifactsOf(revision)(ref); err == nil {
		return recorded
	}
	return nil
}
