// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"fmt"
	"maps"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
)

// checkDowngrade returns an error if a reference now resolves to an older tag than before, in the same source. A
// registry or its mirror may list only a part of its tags. An attacker may hide all tags except an old tag with a valid
// signature. A reference that names a tag or a digest is never a downgrade, even if the tag moves to an older version.
func checkDowngrade(ref addonsv1.ArtifactReference, known *addonsv1.ArtifactStatus, found *oci.Artifact) error {
	if known == nil || ref.AllowDowngrade || known.Digest == found.Digest {
		return nil
	}
	reference := oci.Reference{Semver: ref.Semver, TagFilter: ref.TagFilter}
	if known.Tag == "" || !reference.IsOlder(found.Tag, known.Tag) {
		return nil
	}
	return fmt.Errorf("%w: the registry no longer lists tag %q, and the newest tag that matches the reference is %q. Tag "+
		"%[2]q stays in use. Find out why the tag is missing; to downgrade, name the version in the reference or set "+
		"allowDowngrade there", reasons.ErrDowngrade, known.Tag, found.Tag)
}

// checkMoved returns an error if a chart repository replaced the archive of the version in use. Versions in a chart
// repository are immutable by convention: unlike a tag in a registry, a version does not move to other content. So a
// changed archive is a mistake or an attack.
func checkMoved(ref addonsv1.ArtifactReference, known *addonsv1.ArtifactStatus, found *oci.Artifact) error {
	if known == nil || ref.AllowMovedVersion || !chartrepo.IsURL(found.URL) || known.URL != found.URL ||
		known.Version != found.Version || known.Digest == found.Digest {
		return nil
	}
	return fmt.Errorf("%w: the chart repository replaced version %s, which was %s, by %s. The former archive stays in "+
		"use. Find out why the version was replaced; to use the new archive, set allowMovedVersion in the reference, or "+
		"name its digest there", reasons.ErrVersionMoved, known.Version, known.Digest, found.Digest)
}

// recordedArtifact returns the artifact that the newest revision has for a reference to the same source; nil if there
// is none. Its ResolvedAt is the start of the revision.
func recordedArtifact(helmOp *addonsv1.HelmOp, newest *addonsv1.HelmOpRevision, l *lookup) *addonsv1.ArtifactStatus {
	recorded := revisionstore.ArtifactOfSource(newest, &helmOp.Spec.Source, l.key.ref)
	if recorded == nil {
		return nil
	}
	return &addonsv1.ArtifactStatus{ResolvedArtifact: *recorded, SourceDigest: l.source,
		ResolvedAt: newest.Status.StartedAt}
}

// installedArtifact returns the artifact with the highest tag that the HelmOp has assigned to a release, of the tags of
// the same repository that a range or filter matches. It returns nil if there is none. After a restore without
// HelmOpRevisions, only the releases show which tags the registry had. The result has only a tag and a digest: the
// releases do not show whether an archive was replaced.
func installedArtifact(p *pass, l *lookup) (*addonsv1.ArtifactStatus, error) {
	reference := oci.Reference{Semver: l.key.ref.Semver, TagFilter: l.key.ref.TagFilter}
	if reference == (oci.Reference{}) {
		return nil, nil
	}
	releases, err := p.input.Releases()
	if err != nil {
		return nil, err
	}
	url := apiutil.ArtifactURL(&p.helmOp.Spec.Source)
	digests := map[string]string{}
	for _, release := range releases {
		if artifact := &release.Spec.Artifact; artifact.URL == url && artifact.Tag != "" {
			digests[artifact.Tag] = artifact.Digest
		}
	}
	// The error means that the range matches none of the tags, or is not valid. The lookup reports an invalid range.
	tag, _ := reference.ChooseVersion(url, maps.Keys(digests))
	if tag == "" {
		return nil, nil
	}
	return &addonsv1.ArtifactStatus{ResolvedArtifact: addonsv1.ResolvedArtifact{Tag: tag, Digest: digests[tag]}}, nil
}
