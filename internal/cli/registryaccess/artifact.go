// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
)

const (
	// maxManifest is the maximum size of a manifest, in bytes. Registries have the same limit.
	maxManifest = 4 << 20

	// maxLayer is the maximum size of a layer, in bytes. The manager has the same limit.
	maxLayer = 64 << 20
)

// Artifact is an artifact in a registry.
type Artifact struct {
	Location
	repository *remote.Repository
	desc       ocispec.Descriptor
	manifest   ocispec.Manifest
	progress   *progress
}

// Open reads the manifest of an artifact.
func (f *Flags) Open(ctx context.Context, streams genericiooptions.IOStreams, at Location) (*Artifact, error) {
	repository, err := f.Repository(at)
	if err != nil {
		return nil, err
	}
	desc, body, err := repository.FetchReference(ctx, at.Reference.Reference)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // all needed content was read
	if desc.Size > maxManifest {
		return nil, fmt.Errorf("%s: the manifest has %d bytes; the limit is %d", at, desc.Size, maxManifest)
	}
	data, err := content.ReadAll(body, desc)
	if err != nil {
		return nil, err
	}
	a := &Artifact{Location: at, repository: repository, desc: desc}
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

// Digest returns the digest of the manifest.
func (a *Artifact) Digest() string { return a.desc.Digest.String() }

// EndProgress ends the output about the transfer.
func (a *Artifact) EndProgress() { a.progress.end() }

// String returns the reference of the artifact with its digest.
func (a *Artifact) String() string { return a.Pinned(a.desc.Digest.String()) }

// Layer reads a layer and checks its digest.
func (a *Artifact) Layer(ctx context.Context, i int) ([]byte, error) {
	desc := a.manifest.Layers[i]
	if desc.Size > maxLayer {
		return nil, fmt.Errorf("layer %s has %d bytes; the limit is %d", desc.Digest, desc.Size, maxLayer)
	}
	body, err := a.repository.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // the layer was only read
	data, err := content.ReadAll(io.Reader(countedReader{body, a.progress}), desc)
	if err == nil {
		a.progress.blob(desc, "pulled")
	}
	return data, err
}

// Source returns the artifact in the form that package bundle reads.
func (a *Artifact) Source() bundle.Source {
	source := bundle.Source{
		Manifest: bundle.Manifest{ConfigMediaType: a.manifest.Config.MediaType, ArtifactType: a.manifest.ArtifactType},
		Digest:   a.desc.Digest.String(), Name: "artifact", ReadLayer: a.Layer,
	}
	for _, layer := range a.manifest.Layers {
		source.Layers = append(source.Layers, bundle.Layer{
			MediaType: layer.MediaType, Size: layer.Size,
			Title: layer.Annotations[ocispec.AnnotationTitle], IsFolder: layer.Annotations[bundle.UnpackAnnotation] == "true",
		})
	}
	return source
}
