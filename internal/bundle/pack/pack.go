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

// Options configure the packing. The zero value uses the most likely format.
type Options struct {
	// Format is the format. Empty is HelmChart for a chart, otherwise Flux for a folder and Files for a file.
	Format bundle.Format

	// Annotations are added to the manifest. They take precedence over the annotations of the format. Credentials in their
	// URLs are removed.
	Annotations map[string]string

	// Created is written to the manifest. Zero writes no time, so that the same content always has the same digest.
	Created time.Time

	// MaxBytes limits the bytes that are read. Default 64 MiB, which is also the limit of the manager.
	MaxBytes int64
}

// Artifact is a packed artifact.
type Artifact struct {
	// Format is the format of the artifact.
	Format bundle.Format

	// Manifest is the manifest. Config and Layers are the blobs to which the manifest refers.
	Manifest Blob
	Config   Blob
	Layers   []Blob

	// Name and Version are the name and the version of a Helm chart; empty for other formats.
	Name, Version string

	// Stripped are the annotations with URLs from which a credential was removed.
	Stripped []string
}

// Blob is content with its descriptor.
type Blob struct {
	ocispec.Descriptor
	Content []byte
}

// Blobs returns the config and the layers, without duplicates.
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

// Pack packs a folder, a file or a chart. An error names the file that cannot be packed, or is of the file system.
func Pack(path string, options Options) (*Artifact, error) {
	if options.MaxBytes <= 0 {
		options.MaxBytes = defaultMaxBytes
	}
	if options.Format == "" {
		format, err := guess(path)
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

// packers are the functions that pack each format.
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

// urlAnnotations are annotations with URLs. Everyone with read access can see them.
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

// emptyConfig returns the empty config that the image specification defines.
func emptyConfig() Blob { return newBlob(ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data) }
