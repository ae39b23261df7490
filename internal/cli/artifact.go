// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
)

const (
	// maxManifest is the largest manifest that is read, in bytes. Registries have the same limit.
	maxManifest = 4 << 20

	// maxLayer is the largest layer that is read, in bytes. The manager has the same limit.
	maxLayer = 64 << 20
)

// remoteArtifact is an artifact in a registry.
type remoteArtifact struct {
	location
	repository *remote.Repository
	desc       ocispec.Descriptor
	manifest   ocispec.Manifest
	progress   *progress
}

// open reads the manifest of an artifact.
func (f *registryFlags) open(ctx context.Context, streams Streams, at location) (*remoteArtifact, error) {
	repository, err := f.repository(at)
	if err != nil {
		return nil, err
	}
	desc, body, err := repository.FetchReference(ctx, at.Reference.Reference)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // everything needed is read
	if desc.Size > maxManifest {
		return nil, fmt.Errorf("%s: the manifest has %d bytes; the limit is %d", at, desc.Size, maxManifest)
	}
	data, err := content.ReadAll(body, desc)
	if err != nil {
		return nil, err
	}
	a := &remoteArtifact{location: at, repository: repository, desc: desc}
	if err := json.Unmarshal(data, &a.manifest); err != nil || len(a.manifest.Layers) == 0 {
		return nil, fmt.Errorf(
			"%s is not the manifest of an artifact with content; if it is an index, give the digest of one of its artifacts", a)
	}
	var total int64
	for _, layer := range a.manifest.Layers {
		total += layer.Size
	}
	a.progress = newProgress(streams.ErrOut, "pulling", total)
	return a, nil
}

// String returns the reference of the artifact with its digest.
func (a *remoteArtifact) String() string { return a.pinned(a.desc.Digest.String()) }

// layer reads a layer and checks its digest.
func (a *remoteArtifact) layer(ctx context.Context, i int) ([]byte, error) {
	desc := a.manifest.Layers[i]
	if desc.Size > maxLayer {
		return nil, fmt.Errorf("layer %s has %d bytes; the limit is %d", desc.Digest, desc.Size, maxLayer)
	}
	body, err := a.repository.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was only read
	data, err := content.ReadAll(io.Reader(countedReader{body, a.progress}), desc)
	if err == nil {
		a.progress.blob(desc, "pulled")
	}
	return data, err
}

// source returns the artifact in the form that package bundle reads.
func (a *remoteArtifact) source() bundle.Source {
	source := bundle.Source{
		Manifest: bundle.Manifest{ConfigMediaType: a.manifest.Config.MediaType, ArtifactType: a.manifest.ArtifactType},
		Digest:   a.desc.Digest.String(), Name: "artifact", ReadLayer: a.layer,
	}
	for _, layer := range a.manifest.Layers {
		source.Layers = append(source.Layers, bundle.Layer{
			MediaType: layer.MediaType, Size: layer.Size,
			Title: layer.Annotations[ocispec.AnnotationTitle], IsFolder: layer.Annotations[bundle.UnpackAnnotation] == "true",
		})
	}
	return source
}
