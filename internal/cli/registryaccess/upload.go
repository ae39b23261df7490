// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"bytes"
	"context"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
)

// Upload copies an artifact to its repository, signs it if there is a key, and sets the tags last. So the artifact
// behind a tag is always complete and signed. Upload returns the digest of the signature's manifest; empty without a
// key.
func (s *Signer) Upload(
	ctx context.Context,
	streams genericiooptions.IOStreams,
	repository *remote.Repository,
	artifact *pack.Artifact,
	tags []string,
) (string, error) {
	if err := Transfer(ctx, streams, repository, artifact); err != nil {
		return "", err
	}
	made, err := s.Sign(ctx, repository, artifact.Manifest.Descriptor)
	if err != nil {
		return "", fmt.Errorf("%s was pushed, but neither signed nor tagged: %w", artifact.Manifest.Digest, err)
	}
	for _, tag := range tags {
		manifest := bytes.NewReader(artifact.Manifest.Content)
		if err := repository.PushReference(ctx, artifact.Manifest.Descriptor, manifest, tag); err != nil {
			return "", fmt.Errorf("tag %s: %w", tag, err)
		}
	}
	return made, nil
}

// Transfer copies an artifact to its repository: blobs first, then the manifest.
func Transfer(
	ctx context.Context,
	streams genericiooptions.IOStreams,
	repository *remote.Repository,
	artifact *pack.Artifact,
) error {
	staged, err := Stage(ctx, artifact)
	if err != nil {
		return err
	}
	total := artifact.Manifest.Size
	for _, blob := range artifact.Blobs() {
		total += blob.Size
	}
	bar := newProgress(streams.ErrOut, "pushing", total)
	defer bar.end()
	return oras.CopyGraph(ctx, countedSource{staged, bar}, repository, artifact.Manifest.Descriptor, bar.options("pushed"))
}

// Stage returns a store in memory with an artifact. The tag of the artifact is its digest.
func Stage(ctx context.Context, artifact *pack.Artifact) (*memory.Store, error) {
	staged := memory.New()
	for _, blob := range append(artifact.Blobs(), artifact.Manifest) {
		if err := staged.Push(ctx, blob.Descriptor, bytes.NewReader(blob.Content)); err != nil {
			return nil, err
		}
	}
	manifest := artifact.Manifest.Descriptor
	return staged, staged.Tag(ctx, manifest, manifest.Digest.String())
}
