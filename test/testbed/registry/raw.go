// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
)

// Raw is an artifact of any kind, also of a kind that no tool writes.
type Raw struct {
	// ArtifactType is the artifact type of the manifest. Default: none.
	ArtifactType string
	// ConfigType is the media type of Config. Default: a type that no client supports.
	ConfigType string
	// Config is the configuration. Default: {}.
	Config []byte
	Layers []Layer
	// Annotations are the annotations of the manifest. Default: a fixed time of creation.
	Annotations map[string]string
	// Subject is the manifest to which the artifact refers, as a signature refers to a chart.
	Subject *ocispec.Descriptor
}

// Layer is a layer of an artifact.
type Layer struct {
	MediaType string
	Data      []byte
	// Annotations are the annotations of the layer. Default: none.
	Annotations map[string]string
}

// PushRaw stores an artifact under repository:tag and returns the manifest's descriptor. It moves a tag that exists.
// Without a tag, the artifact has only its digest.
func (r *Registry) PushRaw(ctx context.Context, repository, tag string, raw Raw) (ocispec.Descriptor, error) {
	none := ocispec.Descriptor{}
	repo, err := r.repository(repository)
	if err != nil {
		return none, err
	}
	if raw.ConfigType == "" {
		raw.ConfigType = "application/vnd.helmop.test.config.v1+json"
	}
	if raw.Config == nil {
		raw.Config = []byte("{}")
	}
	if raw.Annotations == nil {
		raw.Annotations = map[string]string{ocispec.AnnotationCreated: epoch.Format(time.RFC3339)}
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: raw.ArtifactType, Annotations: raw.Annotations, Subject: raw.Subject, Layers: []ocispec.Descriptor{},
	}
	if manifest.Config, err = oras.PushBytes(ctx, repo, raw.ConfigType, raw.Config); err != nil {
		return none, fmt.Errorf("push to %s: %w", repository, err)
	}
	for _, layer := range raw.Layers {
		desc, err := oras.PushBytes(ctx, repo, layer.MediaType, layer.Data)
		if err != nil {
			return none, fmt.Errorf("push to %s: %w", repository, err)
		}
		desc.Annotations = layer.Annotations
		manifest.Layers = append(manifest.Layers, desc)
	}
	return r.pushManifest(ctx, repository, tag, manifest.MediaType, manifest)
}

// PushIndex stores an index of manifests that are in the repository, for example the index of an image for several
// platforms.
func (r *Registry) PushIndex(ctx context.Context, repository, tag string,
	manifests ...ocispec.Descriptor,
) (ocispec.Descriptor, error) {
	return r.pushManifest(ctx, repository, tag, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests,
	})
}

func (r *Registry) pushManifest(ctx context.Context, repository, tag, mediaType string,
	manifest any,
) (ocispec.Descriptor, error) {
	none := ocispec.Descriptor{}
	data, err := json.Marshal(manifest)
	if err != nil {
		return none, err
	}
	repo, err := r.repository(repository)
	if err != nil {
		return none, err
	}
	desc, err := oras.PushBytes(ctx, repo, mediaType, data)
	if err != nil {
		return none, fmt.Errorf("push the manifest to %s: %w", repository, err)
	}
	if tag == "" {
		return desc, nil
	}
	if err := repo.Tag(ctx, desc, tag); err != nil {
		return none, fmt.Errorf("tag %s:%s: %w", repository, tag, err)
	}
	return desc, nil
}

// Manifest reads the manifest that a tag or digest refers to.
func (r *Registry) Manifest(ctx context.Context, repository, reference string) (ocispec.Manifest, error) {
	var manifest ocispec.Manifest
	repo, err := r.repository(repository)
	if err != nil {
		return manifest, err
	}
	_, data, err := oras.FetchBytes(ctx, repo, reference, oras.DefaultFetchBytesOptions)
	if err != nil {
		return manifest, fmt.Errorf("read the manifest of %s %s: %w", repository, reference, err)
	}
	return manifest, json.Unmarshal(data, &manifest)
}

// Entry is a file, or another kind of entry, of an archive. Archive sets the header's Size from Data.
type Entry struct {
	tar.Header
	Data []byte
}

// TextFile is a regular file in an archive.
func TextFile(name, content string) Entry {
	return Entry{Header: tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, Data: []byte(content)}
}

// Archive returns a .tgz of entries. It changes nothing, so that the archive may be one that no packaging tool writes.
func Archive(entries ...Entry) ([]byte, error) {
	return zipped(func(archive *tar.Writer) error {
		for _, entry := range entries {
			header := entry.Header
			header.Size, header.ModTime = int64(len(entry.Data)), epoch
			if err := archive.WriteHeader(&header); err != nil {
				return fmt.Errorf("archive %s: %w", header.Name, err)
			}
			if _, err := archive.Write(entry.Data); err != nil {
				return fmt.Errorf("archive %s: %w", header.Name, err)
			}
		}
		return nil
	})
}

// GzipBomb returns a .tgz with a chart of this name and version that has a file of size bytes, all zero. The .tgz has
// about a thousandth of size.
func GzipBomb(name, version string, size int64) ([]byte, error) {
	metadata := fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)
	return zipped(func(archive *tar.Writer) error {
		chart := &tar.Header{Name: name + "/Chart.yaml", Mode: 0o644, Size: int64(len(metadata)), ModTime: epoch}
		bomb := &tar.Header{Name: name + "/templates/bomb.yaml", Mode: 0o644, Size: size, ModTime: epoch}
		if err := archive.WriteHeader(chart); err != nil {
			return err
		}
		if _, err := archive.Write([]byte(metadata)); err != nil {
			return err
		}
		if err := archive.WriteHeader(bomb); err != nil {
			return err
		}
		_, err := io.CopyN(archive, zeros{}, size)
		return err
	})
}

// zipped returns the .tgz that a function writes.
func zipped(write func(*tar.Writer) error) ([]byte, error) {
	var buf bytes.Buffer
	compressed := gzip.NewWriter(&buf)
	archive := tar.NewWriter(compressed)
	err := write(archive)
	if err := errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
