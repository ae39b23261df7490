// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/documents"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/kustomize"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
)

// Media types that identify formats.
const (
	// ChartConfigMediaType is the type of the config blob of Helm charts.
	ChartConfigMediaType = "application/vnd.cncf.helm.config.v1+json"
	// ChartLayerMediaType is the type of the layer with the packed chart.
	ChartLayerMediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// legacyChartLayerMediaType is the type that Helm used before version 3.7.
	legacyChartLayerMediaType = "application/tar+gzip"

	// FluxConfigMediaType is the type of the config blob of artifacts of Flux.
	FluxConfigMediaType = "application/vnd.cncf.flux.config.v1+json"
	// FluxLayerMediaType is the type of the layer with the folder that Flux packed.
	FluxLayerMediaType = "application/vnd.cncf.flux.content.v1.tar+gzip"
	// FleetArtifactType is the artifact type of lists of files in the format of Fleet.
	FleetArtifactType = "application/fleet.manifest"
	// FleetLayerMediaType is the type of the layer with the list of files.
	FleetLayerMediaType = "application/fleet.file"
	// imageConfigMediaType and dockerConfigMediaType are the types of the config blob of container images.
	imageConfigMediaType  = "application/vnd.oci.image.config.v1+json"
	dockerConfigMediaType = "application/vnd.docker.container.image.v1+json"
	// UnpackAnnotation is "true" on layers that ORAS created from folders.
	UnpackAnnotation = "io.deis.oras.content.unpack"
)

// Format is the format of an artifact.
type Format string

// The formats that can be installed.
const (
	// FormatHelmChart is a Helm chart, as pushed by "helm push".
	FormatHelmChart Format = "HelmChart"
	// FormatFlux is a packed folder, as pushed by "flux push artifact".
	FormatFlux Format = "Flux"
	// FormatPlain is a container image with the folder /manifests: rukpak's plain+v0.
	FormatPlain Format = "Plain"
	// FormatFiles are files and packed folders, one per layer, as pushed by "oras push".
	FormatFiles Format = "Files"
	// FormatFleet is a list of files in the format of Fleet.
	FormatFleet Format = "Fleet"
)

// Manifest holds the relevant fields of an artifact's manifest.
type Manifest struct {
	ConfigMediaType string
	ArtifactType    string
	Layers          []Layer
}

// Layer holds the relevant fields of a layer's descriptor.
type Layer struct {
	MediaType string
	// Size is in bytes.
	Size int64
	// Title is the name of the file or folder in the layer. It is empty for other layers.
	Title string
	// IsFolder is true if the layer is a packed folder.
	IsFolder bool
}

// Selection selects a part of an artifact and says how to interpret it.
type Selection struct {
	// Format overrides the format that Detect finds by the media types. Empty means that Detect finds the format.
	Format Format
	// LayerMediaType selects the first layer of this type, for formats with one layer. Without Format, the layer is a
	// packed chart. Empty means the media type of the format.
	LayerMediaType string
	// Path is the folder of the artifact to use, relative to its root. Empty means the whole artifact.
	Path string
	// Templates is true if Helm renders the files as templates. If it is false, Helm installs the files unchanged.
	Templates bool
}

// Detect returns the format of an artifact and the indices of the layers with content. It reads only the manifest. It
// returns ErrUnsupported if the artifact cannot be installed, or if the format does not support the selection. The
// error text has the media types.
func Detect(m Manifest, want Selection) (Format, []int, error) {
	format := want.Format
	switch {
	case format == "" && want.LayerMediaType != "":
		format = FormatHelmChart
	case format == "":
		format = m.format()
	}
	if format == "" {
		return "", nil, fmt.Errorf("%w: it must have a layer of type %s, or be an artifact of Flux, Fleet or ORAS with "+
			"manifests, or an image with /manifests; found %s; "+
			"select a layer by its type if it is a packed chart, or name the format", ErrUnsupported, ChartLayerMediaType, m)
	}
	if err := want.suits(format); err != nil {
		return "", nil, err
	}
	if want.LayerMediaType != "" {
		i := slices.IndexFunc(m.Layers, func(layer Layer) bool { return layer.MediaType == want.LayerMediaType })
		if i < 0 {
			return "", nil, fmt.Errorf("%w: no layer has the selected type %q; found layers %s",
				ErrUnsupported, unpack.Clip(want.LayerMediaType), quoteSome(m.Layers))
		}
		return format, []int{i}, nil
	}
	layers := m.layersOf(format)
	if len(layers) == 0 {
		return "", nil, fmt.Errorf("%w: no layer has the format %s; found %s", ErrUnsupported, unpack.Clip(string(format)), m)
	}
	if i := slices.IndexFunc(m.Layers, isNoTar); format == FormatPlain && want.Format == "" && i >= 0 {
		return "", nil, fmt.Errorf("%w: layer %d of the image has the type %q; the layers of a plain bundle are tar "+
			"archives, uncompressed or compressed with gzip; if they are, but have other types, set format: Plain",
			ErrUnsupported, i, unpack.Clip(m.Layers[i].MediaType))
	}
	return format, layers, nil
}

// isNoTar is true for a layer of an image that cannot be unpacked: it is no tar archive, or is compressed with zstd or
// encrypted.
func isNoTar(layer Layer) bool {
	archive, packing, _ := strings.Cut(layer.MediaType, "+")
	archive = strings.TrimSuffix(archive, ".gzip")
	name := archive[strings.LastIndexAny(archive, "./")+1:]
	return name != "tar" && name != "x-tar" || packing != "" && packing != "gzip"
}

// suits returns an error if a format does not support the selection.
func (s Selection) suits(format Format) error {
	refuse := func(what string) error {
		return fmt.Errorf("%w: the artifact has the format %s, which %s", ErrUnsupported, unpack.Clip(string(format)), what)
	}
	switch {
	case format == FormatHelmChart && s.Path != "", format == FormatPlain && s.Path != "":
		return refuse("has no folders to select; remove path")
	case format == FormatHelmChart && s.Templates:
		return refuse("always contains templates; remove templating")
	case s.LayerMediaType != "" && (format == FormatPlain || format == FormatFiles):
		return refuse("has no single layer to select; remove layerSelector")
	}
	return nil
}

// format returns the format by the media types. It returns "" for an artifact that cannot be installed.
func (m Manifest) format() Format {
	for _, format := range []Format{FormatHelmChart, FormatFlux, FormatFleet} {
		if len(m.typed(format)) > 0 {
			return format
		}
	}
	switch {
	case m.ArtifactType == FleetArtifactType && len(m.Layers) == 1:
		return FormatFleet
	case m.ConfigMediaType == imageConfigMediaType, m.ConfigMediaType == dockerConfigMediaType:
		return FormatPlain
	case len(m.layersOf(FormatFiles)) > 0:
		return FormatFiles
	}
	return ""
}

// typed returns the index of the layer with the media type of a format. It is for formats with one layer.
func (m Manifest) typed(format Format) []int {
	for i, layer := range m.Layers {
		switch {
		case format == FormatHelmChart && layer.MediaType == ChartLayerMediaType,
			format == FormatHelmChart && layer.MediaType == legacyChartLayerMediaType &&
				m.ConfigMediaType == ChartConfigMediaType,
			format == FormatFlux && layer.MediaType == FluxLayerMediaType,
			format == FormatFleet && layer.MediaType == FleetLayerMediaType:
			return []int{i}
		}
	}
	return nil
}

// layersOf returns the indices of the layers with content.
func (m Manifest) layersOf(format Format) []int {
	var layers []int
	switch format {
	case FormatPlain:
		for i := range m.Layers {
			layers = append(layers, i)
		}
	case FormatFiles:
		// A kustomization may refer to files of any kind.
		all := slices.ContainsFunc(m.Layers, func(layer Layer) bool { return kustomize.IsKustomization(layer.Title) })
		for i, layer := range m.Layers {
			if layer.IsFolder || documents.IsManifestFile(layer.Title) || all && layer.Title != "" {
				layers = append(layers, i)
			}
		}
	case FormatFlux, FormatFleet:
		layers = m.typed(format)
		if len(layers) == 0 && len(m.Layers) == 1 {
			layers = []int{0}
		}
	default:
		layers = m.typed(format)
	}
	return layers
}

// String describes a manifest briefly.
func (m Manifest) String() string {
	return fmt.Sprintf("config %q, artifact type %q, layers %s", unpack.Clip(m.ConfigMediaType),
		unpack.Clip(m.ArtifactType), quoteSome(m.Layers))
}

// quoteSome lists the first few media types. A manifest may have thousands.
func quoteSome(layers []Layer) string {
	const limit = 5
	var quoted []string
	for i, layer := range layers {
		if i == limit {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(layers)-limit))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", unpack.Clip(layer.MediaType)))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
