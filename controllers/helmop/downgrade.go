// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"fmt"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
)

// checkDowngrade returns an error where what a reference stands for now is older than what it stood for before, with
// the source as it is: a registry, or one of its mirrors, may list a part of its tags, and an attacker may put an old
// tag, with its signature, in the place of the others. A tag or a digest that is named is what its author says, also if
// the tag moves to an older version.
func checkDowngrade(ref addonsv1.ArtifactReference, known *addonsv1.ArtifactStatus, found *oci.Artifact) error {
	if known == nil || ref.AllowDowngrade || known.Digest == found.Digest {
		return nil
	}
	reference := oci.Reference{Semver: ref.Semver, TagFilter: ref.TagFilter}
	if known.Tag == "" || !reference.IsOlder(found.Tag, known.Tag) {
		return nil
	}
	return fmt.Errorf("%w: the reference stands for tag %q now, and tag %q from before, which stays, is not listed by "+
		"the registry any more. "+
		"Find out why, and name the version that you want in the reference or set allowDowngrade there", reasons.ErrDowngrade,
		found.Tag, known.Tag)
}

// beforeOf is what a reference stood for before, with the source as it is: as the status knows or, after a move or a
// restore, as the newest revision knows. Nil if neither does.
func (s *helmOpScope) beforeOf(asked *lookup) *addonsv1.ArtifactStatus {
	if asked.known != nil {
		return asked.known
	}
	newest := s.newestRevision()
	if newest == nil {
		return nil
	}
	then, now := newest.Spec.HelmOp.Source, s.helmOp.Spec.Source
	if then.URL != now.URL || apiutil.Selected(&then) != apiutil.Selected(&now) {
		return nil
	}
	recorded, err := artifactsOfRevision(newest)(asked.key.ref)
	if err != nil {
		return nil
	}
	return &addonsv1.ArtifactStatus{ResolvedArtifact: *recorded}
}
