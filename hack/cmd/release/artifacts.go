// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/chart"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/publish"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/sbom"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
)

// spdxPredicate is the type of an attestation with an SPDX document.
const spdxPredicate = "https://spdx.dev/Document"

// artifacts are the artifacts that are pushed to registries.
type artifacts struct{ imageIndex, helmChart, clusterctl publish.Artifact }

// imageFiles copies the image and lists the modules of each platform.
func (r *release) imageFiles(ctx context.Context) error {
	blobs, err := oci.NewStorage(filepath.Join(r.layout, "layout"))
	if err != nil {
		return err
	}
	var top, index ocispec.Index
	data, err := os.ReadFile(filepath.Join(r.layout, "layout", ocispec.ImageIndexFile))
	if err != nil {
		return fmt.Errorf("%w: run `make image` first", err)
	}
	if err := json.Unmarshal(data, &top); err != nil {
		return err
	}
	if len(top.Manifests) != 1 {
		return fmt.Errorf("%s has %d images", r.layout, len(top.Manifests))
	}
	root := top.Manifests[0]
	if data, err = content.FetchAll(ctx, blobs, root); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return err
	}
	root.Annotations = nil
	r.imageIndex = publish.Artifact{Root: root, From: blobs}
	base := path.Base(r.image)
	for _, manifest := range index.Manifests {
		platform := manifest.Platform.OS + "_" + manifest.Platform.Architecture
		document, err := sbom.Document(sbom.Subject{
			Name: base, Version: r.version, Sum: manifest.Digest.Encoded(), Image: r.image, Created: r.time,
			Binary: filepath.Join(r.layout, "bin", manifest.Platform.OS+"-"+manifest.Platform.Architecture, "manager"),
		})
		if err != nil {
			return err
		}
		if err := r.write(fmt.Sprintf("%s_%s_%s.spdx.json", base, r.version, platform), document); err != nil {
			return err
		}
		subject := ocispec.Descriptor{MediaType: manifest.MediaType, Digest: manifest.Digest, Size: manifest.Size}
		r.imageIndex.Attestations = append(r.imageIndex.Attestations,
			publish.Attestation{Subject: subject, PredicateType: spdxPredicate, Predicate: document})
	}
	return copyFile(filepath.Join(r.layout, "image.tar"),
		filepath.Join(r.output, fmt.Sprintf("%s_%s_oci.tar", base, r.version)))
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, source)
	return err
}

// packChart writes the Helm chart.
func (r *release) packChart(ctx context.Context) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	made, err := chart.Files(chart.Options{
		Config: os.DirFS("config"), Version: r.version, Image: r.image, License: license,
	})
	if err != nil {
		return err
	}
	folder, err := r.folder(chart.Name, made)
	if err != nil {
		return err
	}
	packed, err := pack.Pack(folder, r.packOptions(bundle.FormatHelmChart))
	if err != nil {
		return err
	}
	if r.helmChart, err = publish.Packed(ctx, packed); err != nil {
		return err
	}
	return r.write(fmt.Sprintf("%s-%s.tgz", chart.Name, r.number()), packed.Layers[0].Content)
}

// packComponents packs the files that clusterctl installs as an artifact, with one layer for each file. Cluster API
// Operator installs such artifacts.
func (r *release) packComponents(ctx context.Context) error {
	contents := map[string][]byte{}
	for _, name := range provider {
		data, err := os.ReadFile(filepath.Join(r.output, name))
		if err != nil {
			return err
		}
		contents[name] = data
	}
	folder, err := r.folder("components", contents)
	if err != nil {
		return err
	}
	packed, err := pack.Pack(folder, r.packOptions(bundle.FormatFiles))
	if err != nil {
		return err
	}
	r.clusterctl, err = publish.Packed(ctx, packed)
	return err
}

func (r *release) packOptions(format bundle.Format) pack.Options {
	return pack.Options{Format: format, Created: r.time, Annotations: map[string]string{
		ocispec.AnnotationSource: r.source, ocispec.AnnotationRevision: r.commit, ocispec.AnnotationVersion: r.number(),
		ocispec.AnnotationLicenses: "Apache-2.0",
	}}
}

// folder writes files into a new folder for intermediate files, and returns its path.
func (r *release) folder(name string, contents map[string][]byte) (string, error) {
	folder := filepath.Join(r.work, name)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	for name, data := range contents {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return "", err
		}
	}
	return folder, nil
}
