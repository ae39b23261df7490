// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
)

const defaultMaxBytes = 64 << 20

// Options say how to pack. The zero value packs what Guess says.
type Options struct {
	// Format is the format; empty for the one that Guess returns.
	Format bundle.Format

	// Annotations are added to the manifest; they win over those of the format. Credentials in their URLs are left out.
	Annotations map[string]string

	// Created is told in the manifest; zero tells none, so that equal content has an equal digest whenever it is packed.
	Created time.Time

	// MaxBytes bounds what is read. Default 64 MiB, which is also what the manager pulls.
	MaxBytes int64
}

// Artifact is what is to be pushed.
type Artifact struct {
	// Format is how it was packed.
	Format bundle.Format

	// Manifest is the manifest, and Config and Layers are what it names.
	Manifest Blob
	Config   Blob
	Layers   []Blob

	// Name and Version are those of a Helm chart, else empty.
	Name, Version string

	// Stripped are the annotations with a URL that had a credential, which is not in the manifest.
	Stripped []string
}

// Blob is content with its descriptor.
type Blob struct {
	ocispec.Descriptor
	Content []byte
}

// Blobs are the config and the layers, each digest once.
func (a *Artifact) Blobs() []Blob {
	var blobs []Blob
	seen := map[digest.Digest]bool{}
	for _, blob := range append([]Blob{a.Config}, a.Layers...) {
		if !seen[blob.Digest] {
			seen[blob.Digest] = true
			blobs = append(blobs, blob)
		}
	}
	return blobs
}

// Pack makes an artifact of a folder, a file or a chart. Its errors are ErrInvalid, ErrTooLarge, or those of the file system.
func Pack(path string, options Options) (*Artifact, error) {
	if options.MaxBytes <= 0 {
		options.MaxBytes = defaultMaxBytes
	}
	if options.Format == "" {
		format, err := Guess(path)
		if err != nil {
			return nil, err
		}
		options.Format = format
	}
	made, err := packers[options.Format](path, options)
	if err != nil {
		return nil, err
	}
	return made.artifact(options)
}

// packers pack in a format.
var packers = map[bundle.Format]func(path string, options Options) (*draft, error){
	bundle.FormatHelmChart: packHelm,
	bundle.FormatFlux:      packFlux,
	bundle.FormatPlain:     packPlain,
	bundle.FormatFiles:     packFiles,
	bundle.FormatFleet:     packFleet,
}

// draft is an artifact without its manifest.
type draft struct {
	artifactType  string
	config        Blob
	layers        []Blob
	annotations   map[string]string
	name, version string
}

// urlAnnotations have URLs, which everybody reads who may pull.
var urlAnnotations = []string{ocispec.AnnotationSource, ocispec.AnnotationURL, ocispec.AnnotationDocumentation}

func (d *draft) artifact(options Options) (*Artifact, error) {
	manifest := ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: d.artifactType,
		Config:       d.config.Descriptor,
		Annotations:  map[string]string{},
	}
	for _, layer := range d.layers {
		manifest.Layers = append(manifest.Layers, layer.Descriptor)
	}
	maps.Copy(manifest.Annotations, d.annotations)
	if !options.Created.IsZero() {
		manifest.Annotations[ocispec.AnnotationCreated] = options.Created.UTC().Format(time.RFC3339)
	}
	maps.Copy(manifest.Annotations, options.Annotations)
	var stripped []string
	for _, key := range urlAnnotations {
		clean, had := bundle.WithoutCredential(manifest.Annotations[key])
		if had {
			manifest.Annotations[key] = clean
			stripped = append(stripped, key)
		}
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return &Artifact{
		Format: options.Format, Manifest: newBlob(manifest.MediaType, data), Config: d.config, Layers: d.layers,
		Name: d.name, Version: d.version, Stripped: stripped,
	}, nil
}

func newBlob(mediaType string, content []byte) Blob {
	return Blob{
		Descriptor: ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))},
		Content:    content,
	}
}

// emptyConfig is the config of artifacts that need none, as the image specification has it.
func emptyConfig() Blob { return newBlob(ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data) }
