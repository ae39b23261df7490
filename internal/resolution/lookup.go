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

// Lookup resolves one reference into the source of a HelmOp now, and checks the required signatures as a Resolver does.
// It has neither a cache nor a schedule, and does not compare the artifact with the one in use. ResolvedAt is not set.
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
