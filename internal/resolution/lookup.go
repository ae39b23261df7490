// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"context"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// Lookup resolves one reference in the source of a HelmOp now, and checks the required signatures as a Resolver does.
// It has no cache and no schedule, and does not compare the artifact with the artifact in use. It does not set
// ResolvedAt.
func Lookup(ctx context.Context, registry Registry, verifier verify.Verifier, reader *references.Reader,
	helmOp *addonsv1.HelmOp, ref addonsv1.ArtifactReference,
) (*addonsv1.ArtifactStatus, error) {
	a, err := readAccess(ctx, reader, helmOp)
	if err != nil {
		return nil, err
	}
	source := helmOp.Spec.Source
	source.Ref = ref
	digest, err := apiutil.SourceDigest(&source)
	if err != nil {
		return nil, err
	}
	found, err := resolve(ctx, registry, verifier, a, references.OciSource(helmOp, ref, a.access),
		apiutil.Selected(&helmOp.Spec.Source), apiutil.KnownArtifacts(&helmOp.Status))
	if err != nil {
		return nil, err
	}
	return artifactStatus(helmOp, found, &lookup{lookupKey: lookupKey{source: digest}, registryAccess: a}), nil
}
