// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// maxReferrerDepth limits chains of referrers, for example a signature of an attestation of an artifact.
const maxReferrerDepth = 3

// signatureSuffixes are the suffixes of the tags under which cosign stores signatures, attestations and bills of
// material in registries without referrers.
var signatureSuffixes = []string{".sig", ".att", ".sbom"}

// Copy copies an artifact or an image with all artifacts that refer to it, for example its signatures. It sets a tag at
// the target unless tag is empty. ref is a tag or a digest at the source. Content that the target already has is not
// sent again, so an interrupted copy continues. The digest does not change. each is called for each copied blob and
// manifest.
func Copy(ctx context.Context, from oras.ReadOnlyGraphTarget, ref string, to oras.GraphTarget, tag string,
	each func(ocispec.Descriptor),
) (ocispec.Descriptor, error) {
	desc, err := from.Resolve(ctx, ref)
	if err != nil {
		return desc, err
	}
	digest := desc.Digest.String()
	if tag == "" {
		tag = digest
	}
	options := oras.DefaultExtendedCopyOptions
	options.Depth = maxReferrerDepth
	var lists []referrerList
	options.FindPredecessors = func(ctx context.Context, in content.ReadOnlyGraphStorage,
		subject ocispec.Descriptor,
	) ([]ocispec.Descriptor, error) {
		referrers, err := referrersOf(ctx, in, subject)
		lists = append(lists, referrerList{subject, referrers})
		return referrers, err
	}
	options.PostCopy = func(_ context.Context, desc ocispec.Descriptor) error {
		each(desc)
		return nil
	}
	if err := oras.ExtendedCopyGraph(ctx, from, to, desc, options.ExtendedCopyGraphOptions); err != nil {
		return desc, fmt.Errorf("copy %s: %w", digest, err)
	}
	for _, list := range lists {
		if err := list.complete(ctx, from, to, each); err != nil {
			return desc, fmt.Errorf("list what refers to %s: %w", list.subject.Digest, err)
		}
	}
	for _, suffix := range signatureSuffixes {
		attached := strings.Replace(digest, ":", "-", 1) + suffix
		_, err := from.Resolve(ctx, attached)
		if errors.Is(err, errdef.ErrNotFound) {
			continue
		}
		// From here on, content that does not exist is missing content of the signature.
		if err == nil {
			_, err = oras.Copy(ctx, from, attached, to, attached,
				oras.CopyOptions{CopyGraphOptions: options.CopyGraphOptions})
		}
		if err != nil {
			return desc, fmt.Errorf("copy %s: %w", attached, err)
		}
	}
	// The tag is set last, so that clients that use the tag find the artifact complete and signed.
	if tag == digest {
		return desc, nil
	}
	if err := to.Tag(ctx, desc, tag); err != nil {
		return desc, fmt.Errorf("tag %s: %w", tag, err)
	}
	return desc, nil
}

// referrersOf returns the manifests that refer to a manifest. It finds them in the same way as the manager.
func referrersOf(ctx context.Context, in content.ReadOnlyGraphStorage,
	subject ocispec.Descriptor,
) (referrers []ocispec.Descriptor, err error) {
	repository, isRemote := in.(*remote.Repository)
	if !isRemote {
		return in.Predecessors(ctx, subject)
	}
	_, err = oci.ListReferrers(ctx, repository, subject, func(page []ocispec.Descriptor) error {
		referrers = append(referrers, page...)
		return nil
	})
	return referrers, err
}

// referrerList has the manifests at a source that refer to a subject.
type referrerList struct {
	subject   ocispec.Descriptor
	referrers []ocispec.Descriptor
}

// complete completes the list of the referrers of the subject at a target that has the referrers themselves. A registry
// without the referrers API has this list under a tag. A copy sends the manifest of a referrer first, and then adds it
// to the list. If a copy ends between the two, the next copy finds the manifest, and sends nothing.
func (l referrerList) complete(ctx context.Context, from content.Fetcher, to oras.GraphTarget,
	each func(ocispec.Descriptor),
) error {
	if len(l.referrers) == 0 {
		return nil
	}
	listed, err := referrersOf(ctx, to, l.subject)
	if err != nil {
		return err
	}
	for _, referrer := range l.referrers {
		if slices.ContainsFunc(listed, func(one ocispec.Descriptor) bool { return one.Digest == referrer.Digest }) {
			continue
		}
		manifest, err := content.FetchAll(ctx, from, referrer)
		if err != nil {
			return err
		}
		if err := to.Push(ctx, referrer, bytes.NewReader(manifest)); err != nil {
			return err
		}
		each(referrer)
	}
	return nil
}
