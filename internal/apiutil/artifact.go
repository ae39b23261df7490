// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// Selected returns the fields with which an artifact source selects a part of the artifact: format, path, templating
// and layer. TemplatingNone is left empty.
func Selected(source *addonsv1.ArtifactSource) addonsv1.ResolvedArtifact {
	artifact := addonsv1.ResolvedArtifact{Format: source.Format, Path: source.Path}
	if source.Templating != addonsv1.TemplatingNone {
		artifact.Templating = source.Templating
	}
	if source.LayerSelector != nil {
		artifact.LayerMediaType = source.LayerSelector.MediaType
	}
	return artifact
}

// ArtifactURL returns the URL of the artifact that a source names: the repository in a registry, or the chart in a
// chart repository.
func ArtifactURL(source *addonsv1.ArtifactSource) string {
	if source.Chart == "" {
		return source.URL
	}
	return chartrepo.URL(source.URL, source.Chart)
}

// BundleSelection converts the selection fields of an artifact for the loader in package bundle.
func BundleSelection(artifact *addonsv1.ResolvedArtifact) bundle.Selection {
	return bundle.Selection{
		Format: bundle.Format(artifact.Format), LayerMediaType: artifact.LayerMediaType,
		Path: artifact.Path, Templates: artifact.Templating == addonsv1.TemplatingHelm,
	}
}

// BundleManifest converts an OCI manifest for the loader in package bundle.
func BundleManifest(configMediaType, artifactType string, layers []oci.Layer) bundle.Manifest {
	manifest := bundle.Manifest{ConfigMediaType: configMediaType, ArtifactType: artifactType,
		Layers: make([]bundle.Layer, 0, len(layers))}
	for _, layer := range layers {
		manifest.Layers = append(manifest.Layers, bundle.Layer{
			MediaType: layer.MediaType, Size: layer.Size,
			Title: layer.Annotations[ocispec.AnnotationTitle], IsFolder: layer.Annotations[bundle.UnpackAnnotation] == "true",
		})
	}
	return manifest
}
