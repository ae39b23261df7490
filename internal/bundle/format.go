// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// The errors of this package. Match them with errors.Is.
var (
	// ErrUnsupported says that the artifact is of a kind that cannot be installed.
	ErrUnsupported = errors.New("not an installable artifact")
	// ErrInvalidChart says that a Helm chart is broken, incomplete or not installable.
	ErrInvalidChart = errors.New("invalid chart")
	// ErrInvalidManifests says that what an artifact of another format holds is broken, or not allowed in it.
	ErrInvalidManifests = errors.New("invalid manifests")
	// ErrTooLarge says that the artifact is over one of the limits.
	ErrTooLarge = errors.New("artifact too large")
	// ErrLimit says that building a kustomization took more memory or time than it may, and was ended.
	ErrLimit = errors.New("render limit exceeded")
)

// Media types by which formats are told.
const (
	// ChartConfigMediaType is the type of the config blob of Helm charts.
	ChartConfigMediaType = "application/vnd.cncf.helm.config.v1+json"
	// ChartLayerMediaType is the type of the layer with the packed chart.
	ChartLayerMediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// legacyChartLayerMediaType was used before Helm 3.7.
	legacyChartLayerMediaType = "application/tar+gzip"

	// FluxConfigMediaType is the type of the config blob of artifacts of Flux.
	FluxConfigMediaType = "application/vnd.cncf.flux.config.v1+json"
	// FluxLayerMediaType is the type of the layer with the folder that Flux packed.
	FluxLayerMediaType = "application/vnd.cncf.flux.content.v1.tar+gzip"
	// FleetArtifactType is the artifact type of Fleet's lists of files.
	FleetArtifactType = "application/fleet.manifest"
	// FleetLayerMediaType is the type of the layer with the list.
	FleetLayerMediaType = "application/fleet.file"
	// ImageConfigMediaType and DockerConfigMediaType are the types of the config blob of container images.
	ImageConfigMediaType  = "application/vnd.oci.image.config.v1+json"
	DockerConfigMediaType = "application/vnd.docker.container.image.v1+json"
	// UnpackAnnotation is "true" on layers that ORAS made of folders.
	UnpackAnnotation = "io.deis.oras.content.unpack"
)

// Format is what an artifact is.
type Format string

// The formats that can be installed.
const (
	// FormatHelmChart is a Helm chart as "helm push" makes it.
	FormatHelmChart Format = "HelmChart"
	// FormatFlux is a packed folder as "flux push artifact" makes it.
	FormatFlux Format = "Flux"
	// FormatPlain is a container image with the folder /manifests: rukpak's plain+v0.
	FormatPlain Format = "Plain"
	// FormatFiles are files and packed folders as "oras push" makes them, a layer each.
	FormatFiles Format = "Files"
	// FormatFleet is the list of files that Fleet keeps in registries.
	FormatFleet Format = "Fleet"
)

// Manifest is what the manifest of an artifact says of it.
type Manifest struct {
	ConfigMediaType string
	ArtifactType    string
	Layers          []Layer
}

// Layer is what a manifest says of a layer.
type Layer struct {
	MediaType string
	// Size is in bytes.
	Size int64
	// Title is the name of the file or folder that the layer is; empty if it is none.
	Title string
	// IsFolder tells that the layer is a packed folder.
	IsFolder bool
}

// Selection is what is wanted of an artifact.
type Selection struct {
	// Format overrides what the media types tell; empty for that.
	Format Format
	// LayerMediaType selects the first layer of that type, for the formats that have one layer; it is a packed chart
	// unless Format says otherwise. Empty for the layer that the format's media type names.
	LayerMediaType string
	// Path is the folder of the artifact that is taken, relative to its root. Empty for all of it.
	Path string
	// Templates tells that files are templates, for Helm to render with values. Without it they are taken literally.
	Templates bool
}

// Detect tells what an artifact is, and which of its layers hold the content, in their order, from its manifest alone.
// It returns ErrUnsupported, with the types it saw, for what cannot be installed, and for a selection that does not suit
// the format.
func Detect(m Manifest, want Selection) (Format, []int, error) {
	format := want.Format
	switch {
	case format == "" && want.LayerMediaType != "":
		format = FormatHelmChart
	case format == "":
		format = m.format()
	}
	if format == "" {
		return "", nil, fmt.Errorf("%w: it must have a layer of type %s, or be an artifact of Flux, Fleet or ORAS with manifests, or an image with /manifests; found %s; "+
			"select a layer by its type if it is a packed chart, or name the format", ErrUnsupported, ChartLayerMediaType, m)
	}
	if err := want.suits(format); err != nil {
		return "", nil, err
	}
	if want.LayerMediaType != "" {
		i := slices.IndexFunc(m.Layers, func(layer Layer) bool { return layer.MediaType == want.LayerMediaType })
		if i < 0 {
			return "", nil, fmt.Errorf("%w: no layer has the selected type %q; found layers %s",
				ErrUnsupported, clip(want.LayerMediaType), quoteSome(m.Layers))
		}
		return format, []int{i}, nil
	}
	layers := m.layersOf(format)
	if len(layers) == 0 {
		return "", nil, fmt.Errorf("%w: no layer has the format %s; found %s", ErrUnsupported, clip(string(format)), m)
	}
	return format, layers, nil
}

// suits checks that what is selected exists in a format.
func (s Selection) suits(format Format) error {
	refuse := func(what string) error {
		return fmt.Errorf("%w: the artifact has the format %s, which does not support %s", ErrUnsupported, clip(string(format)), what)
	}
	switch {
	case format == FormatHelmChart && s.Path != "", format == FormatPlain && s.Path != "":
		return refuse("folders to choose from: leave out path")
	case format == FormatHelmChart && s.Templates:
		return refuse("switch for templates, for its files are templates: leave out templating")
	case s.LayerMediaType != "" && (format == FormatPlain || format == FormatFiles):
		return refuse("layer of its own: leave out layerSelector")
	}
	return nil
}

// format is what the media types tell; empty if they tell nothing that can be installed.
func (m Manifest) format() Format {
	for _, format := range []Format{FormatHelmChart, FormatFlux, FormatFleet} {
		if len(m.typed(format)) > 0 {
			return format
		}
	}
	switch {
	case m.ArtifactType == FleetArtifactType && len(m.Layers) == 1:
		return FormatFleet
	case m.ConfigMediaType == ImageConfigMediaType, m.ConfigMediaType == DockerConfigMediaType:
		return FormatPlain
	case len(m.layersOf(FormatFiles)) > 0:
		return FormatFiles
	}
	return ""
}

// typed finds the layer that has the media type of a format with one layer.
func (m Manifest) typed(format Format) []int {
	for i, layer := range m.Layers {
		switch {
		case format == FormatHelmChart && layer.MediaType == ChartLayerMediaType,
			format == FormatHelmChart && layer.MediaType == legacyChartLayerMediaType && m.ConfigMediaType == ChartConfigMediaType,
			format == FormatFlux && layer.MediaType == FluxLayerMediaType,
			format == FormatFleet && layer.MediaType == FleetLayerMediaType:
			return []int{i}
		}
	}
	return nil
}

// layersOf finds the layers that hold the content if the artifact is of a format.
func (m Manifest) layersOf(format Format) []int {
	var layers []int
	switch format {
	case FormatPlain:
		for i := range m.Layers {
			layers = append(layers, i)
		}
	case FormatFiles:
		// A kustomization may name files of any kind.
		all := slices.ContainsFunc(m.Layers, func(layer Layer) bool { return IsKustomization(layer.Title) })
		for i, layer := range m.Layers {
			if layer.IsFolder || isManifestFile(layer.Title) || all && layer.Title != "" {
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

// String says what a manifest is, in few words.
func (m Manifest) String() string {
	return fmt.Sprintf("config %q, artifact type %q, layers %s", clip(m.ConfigMediaType), clip(m.ArtifactType), quoteSome(m.Layers))
}

// quoteSome lists the first few types; a manifest may have thousands.
func quoteSome(layers []Layer) string {
	const limit = 5
	var quoted []string
	for i, layer := range layers {
		if i == limit {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(layers)-limit))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", clip(layer.MediaType)))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// clip bounds text of others that goes into a message.
func clip(text string) string { return truncate.Text(text, 120) }
