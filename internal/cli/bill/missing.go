// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// Missing is an artifact that a registry does not have.
type Missing struct {
	// Kind is "Chart", "Image", or the kind of an attached artifact.
	Kind string `json:"kind"`
	// Name is the artifact in the bill. An attached artifact has the name of the artifact to which it is attached.
	Name string `json:"name"`
	// Target is the required place of the artifact: HOST/REPOSITORY with a tag or a digest.
	Target string `json:"target"`
	// Digest is the digest in the bill; empty if it is not known.
	Digest string `json:"digest,omitempty"`
	// Found is the digest of the tag in the registry; empty if the registry does not have the tag.
	Found string `json:"found,omitempty"`
}

// check is a check whether a registry has an artifact.
type check struct {
	Missing
	// repository is the URL of the target. reference is its tag or digest.
	repository, reference string
	// isArchive means that the digest is the digest of a layer.
	isArchive bool
	// subject is the digest of the artifact to which a referrer refers; empty for all others.
	subject string
}

// MissingIn returns the artifacts of a bill that a registry does not have. It looks for them below a prefix, under the
// names that the command "mirror" uses. An error means that the registry did not answer all requests.
func (b *Bill) MissingIn(ctx context.Context, in Registry, prefix registry.Reference, access oci.Access) ([]Missing,
	error,
) {
	checks, err := b.checks(prefix)
	if err != nil {
		return nil, err
	}
	isMissing := make([]bool, len(checks))
	var group errgroup.Group
	group.SetLimit(lookupsAtOnce)
	for i := range checks {
		group.Go(func() (err error) {
			isMissing[i], err = checks[i].isMissing(ctx, in, access)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	missing := []Missing{}
	for i := range checks {
		if isMissing[i] {
			missing = append(missing, checks[i].Missing)
		}
	}
	return missing, nil
}

// checks returns the checks for all artifacts of a bill.
func (b *Bill) checks(prefix registry.Reference) ([]check, error) {
	var checks []check
	for i := range b.Charts {
		chart := &b.Charts[i]
		at, err := chart.placeBelow(prefix)
		if err != nil {
			return nil, err
		}
		tag, err := b.tagOf(i)
		if err != nil {
			return nil, err
		}
		checks = append(checks, newChecks("Chart", chart.Name, at.repository, cmp.Or(tag, chart.Digest), chart.Digest,
			chartrepo.IsURL(chart.URL), chart.Attached)...)
	}
	for i := range b.Images {
		image := &b.Images[i]
		if image.Repository == "" {
			continue // the bill already says that this is not the name of an image
		}
		at, err := image.placeBelow(prefix)
		if err != nil {
			return nil, err
		}
		checks = append(checks, newChecks("Image", image.Name, at.repository, cmp.Or(image.Tag, image.Digest),
			image.Digest, false, image.Attached)...)
	}
	return checks, nil
}

// newChecks returns the checks for an artifact and for its attached artifacts.
func newChecks(kind, name string, target registry.Reference, reference, digest string, isArchive bool,
	attached []Attached,
) []check {
	question := func(kind, reference, digest string) check {
		at := target
		at.Reference = reference
		return check{Missing: Missing{Kind: kind, Name: name, Target: at.String(), Digest: digest},
			repository: images.URL(target), reference: reference}
	}
	first := question(kind, reference, digest)
	first.isArchive = isArchive
	checks := []check{first}
	for _, one := range attached {
		referrer := question(one.Kind, cmp.Or(one.Tag, one.Digest), one.Digest)
		if one.Tag == "" {
			referrer.subject = digest
		}
		checks = append(checks, referrer)
	}
	return checks
}

// isMissing asks the registry. If the registry has another artifact under the tag, it sets found to its digest.
func (c *check) isMissing(ctx context.Context, in Registry, access oci.Access) (bool, error) {
	var has []string
	var err error
	if c.isArchive {
		has, err = layersOf(ctx, in, c.repository, c.reference, access)
	} else {
		var digest string
		digest, err = in.Head(ctx, c.repository, c.reference, access)
		has = []string{digest}
	}
	switch {
	case errors.Is(err, ocierr.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case c.subject != "":
		return c.isUnlisted(ctx, in, access)
	case c.Digest == "" || slices.Contains(has, c.Digest):
		return false, nil
	default:
		c.Found = has[0]
		return true, nil
	}
}

// isUnlisted reports whether the registry does not list a referrer among the referrers of its subject. Clients then do
// not find it, although the registry has its digest.
func (c *check) isUnlisted(ctx context.Context, in Registry, access oci.Access) (bool, error) {
	listed, more, err := in.Referrers(ctx, c.repository, c.subject, access, maxReferrers)
	if err != nil {
		return false, err
	}
	isListed := slices.ContainsFunc(listed, func(one oci.Referrer) bool { return one.Digest == c.Digest })
	if more && !isListed {
		return false, fmt.Errorf("more than %d artifacts refer to %s@%s", maxReferrers, c.repository, c.subject)
	}
	return !isListed, nil
}

// layersOf returns the digests of the layers of a chart. The archive is first.
func layersOf(ctx context.Context, in Registry, url, tag string, access oci.Access) ([]string, error) {
	artifact, err := in.Resolve(ctx, oci.Source{URL: url, Ref: oci.Reference{Tag: tag}, Access: access})
	if err != nil {
		return nil, err
	}
	digests := make([]string, 0, len(artifact.Layers))
	for i := range artifact.Layers {
		digests = append(digests, artifact.Layers[i].Digest)
	}
	return digests, nil
}
