// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
)

// imageSpec is the content of an image.
type imageSpec struct {
	reference string
	created   time.Time
	labels    map[string]string
	caBundle  []byte // may be nil
	binaries  []platformBinary
}

// platformBinary is a manager for one platform.
type platformBinary struct {
	platform ocispec.Platform
	path     string
}

// writeLayout replaces root with an OCI image layout that holds one index with an image for each binary, and returns
// the descriptor of this index.
//
// writeLayout writes index.json itself. An oci.Store would list the manifest of each platform in addition to the index,
// in random order.
func writeLayout(ctx context.Context, root string, spec imageSpec) (ocispec.Descriptor, error) {
	if err := os.RemoveAll(root); err != nil {
		return ocispec.Descriptor{}, err
	}
	blobs, err := oci.NewStorage(root)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	index := ocispec.Index{
		Versioned:   specs.Versioned{SchemaVersion: 2},
		MediaType:   ocispec.MediaTypeImageIndex,
		Annotations: spec.labels,
	}
	for _, binary := range spec.binaries {
		manifest, err := writeImage(ctx, blobs, root, spec, binary)
		if err != nil {
			return ocispec.Descriptor{}, fmt.Errorf("image for %s: %w", binary.platform.Architecture, err)
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	desc, err := pushJSON(ctx, blobs, ocispec.MediaTypeImageIndex, index)
	if err != nil {
		return ocispec.Descriptor{}, err
	}

	named := desc
	named.Annotations = map[string]string{
		ocispec.AnnotationRefName: tagOf(spec.reference),
		// containerd reads the full name from this annotation, and `kind load image-archive` uses containerd.
		"io.containerd.image.name": spec.reference,
	}
	top := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{named},
	}
	if err := writeJSON(filepath.Join(root, ocispec.ImageIndexFile), top); err != nil {
		return ocispec.Descriptor{}, err
	}
	version := ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}
	return desc, writeJSON(filepath.Join(root, ocispec.ImageLayoutFile), version)
}

// writeImage writes the layer, configuration and manifest of one platform.
func writeImage(ctx context.Context, blobs *oci.Storage, root string, spec imageSpec,
	binary platformBinary,
) (ocispec.Descriptor, error) {
	blob, written, err := layerFile(root, spec, binary)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer os.Remove(blob.Name())
	defer blob.Close()
	layerDesc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: written.digest, Size: written.size}
	if err := blobs.Push(ctx, layerDesc, blob); err != nil {
		return ocispec.Descriptor{}, err
	}
	user := strconv.Itoa(nonroot)
	config := ocispec.Image{
		Created:  &spec.created,
		Platform: binary.platform,
		Config: ocispec.ImageConfig{
			User:       user + ":" + user,
			Entrypoint: []string{"/manager"},
			Env:        []string{"PATH=/"},
			WorkingDir: "/",
			Labels:     spec.labels,
		},
		RootFS:  ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{written.diffID}},
		History: []ocispec.History{{Created: &spec.created, CreatedBy: "hack/cmd/image"}},
	}
	configDesc, err := pushJSON(ctx, blobs, ocispec.MediaTypeImageConfig, config)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	manifest, err := pushJSON(ctx, blobs, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned:   specs.Versioned{SchemaVersion: 2},
		MediaType:   ocispec.MediaTypeImageManifest,
		Config:      configDesc,
		Layers:      []ocispec.Descriptor{layerDesc},
		Annotations: spec.labels,
	})
	manifest.Platform = &binary.platform
	return manifest, err
}

// layerFile writes the layer to a temporary file and rewinds the file. The content determines the digest.
func layerFile(root string, spec imageSpec, binary platformBinary) (*os.File, layer, error) {
	manager, err := os.Open(binary.path)
	if err != nil {
		return nil, layer{}, err
	}
	defer manager.Close()
	info, err := manager.Stat()
	if err != nil {
		return nil, layer{}, err
	}
	file, err := os.CreateTemp(filepath.Dir(root), "layer-*")
	if err != nil {
		return nil, layer{}, err
	}
	written, err := writeLayer(file, rootFS(spec.caBundle, manager, info.Size()), spec.created)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, layer{}, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, written, nil
}

// rootFS returns the files of the image: the manager, and the files that the Go runtime reads. It also contains the
// folders to which the manager writes if the Deployment mounts none.
func rootFS(caBundle []byte, manager io.Reader, size int64) []entry {
	file := func(name, text string) entry {
		return entry{name: name, mode: 0o644, size: int64(len(text)), content: strings.NewReader(text)}
	}
	entries := []entry{
		{name: "etc/", mode: 0o755},
		file("etc/passwd", fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%[1]d:%[1]d:nonroot:/tmp:/sbin/nologin\n",
			nonroot)),
		file("etc/group", fmt.Sprintf("root:x:0:\nnonroot:x:%d:\n", nonroot)),
	}
	if caBundle != nil {
		entries = append(entries,
			entry{name: "etc/ssl/", mode: 0o755},
			entry{name: "etc/ssl/certs/", mode: 0o755},
			file("etc/ssl/certs/ca-certificates.crt", string(caBundle)))
	}
	return append(entries,
		entry{name: "manager", mode: 0o755, size: size, content: manager},
		entry{name: "tmp/", mode: 0o1777},
		entry{name: "var/", mode: 0o755},
		entry{name: "var/cache/", mode: 0o755},
		entry{name: "var/cache/helmop/", mode: 0o700, owner: nonroot})
}

// pushJSON stores a document. It returns no error if the document is already stored, because two platforms may share a
// document.
func pushJSON(ctx context.Context, blobs content.Pusher, mediaType string, document any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := content.NewDescriptorFromBytes(mediaType, data)
	if err := blobs.Push(ctx, desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return ocispec.Descriptor{}, err
	}
	return desc, nil
}

func writeJSON(path string, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// tagOf returns the tag of a validated reference.
func tagOf(reference string) string {
	return reference[strings.LastIndex(reference, ":")+1:]
}

// archiveLayout writes the layout as a tar file, without times and owners.
func archiveLayout(root, path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := tar.NewWriter(file)
	// WalkDir walks in lexical order.
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return archiveFile(archive, path, filepath.ToSlash(name))
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func archiveFile(archive *tar.Writer, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size(), ModTime: time.Unix(0, 0),
		Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
