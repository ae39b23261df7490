/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The errors of this package. Match them with errors.Is.
var (
	// ErrNotAChart says that the artifact is of a kind that cannot be installed.
	ErrNotAChart = errors.New("not a Helm chart")
	// ErrInvalidChart says that the chart is broken, incomplete or not installable.
	ErrInvalidChart = errors.New("invalid chart")
	// ErrTooLarge says that the chart is over one of the limits.
	ErrTooLarge = errors.New("chart too large")
)

// Media types of Helm charts in registries.
const (
	// ChartConfigMediaType is the type of the config blob.
	ChartConfigMediaType = "application/vnd.cncf.helm.config.v1+json"
	// ChartLayerMediaType is the type of the layer with the packed chart.
	ChartLayerMediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// legacyChartLayerMediaType was used before Helm 3.7.
	legacyChartLayerMediaType = "application/tar+gzip"
)

// Kind is what an artifact is.
type Kind string

// The kinds that can be installed.
const (
	// KindChart is a Helm chart as "helm push" makes it.
	KindChart Kind = "HelmChart"
)

// Detect tells what an artifact is, and which of its layers holds the content,
// from the media types in its manifest. Where layerMediaType is set, the first
// layer of exactly that type is taken for a packed chart, whatever else the
// manifest says of itself. It returns ErrNotAChart, with the types it saw, for
// what cannot be installed.
func Detect(configMediaType, artifactType string, layerMediaTypes []string, layerMediaType string) (Kind, int, error) {
	if layerMediaType != "" {
		if i := slices.Index(layerMediaTypes, layerMediaType); i >= 0 {
			return KindChart, i, nil
		}
		return "", 0, fmt.Errorf("%w: no layer has the selected type %q, found layers %s",
			ErrNotAChart, clip(layerMediaType), quoteSome(layerMediaTypes))
	}
	for i, mediaType := range layerMediaTypes {
		switch {
		case mediaType == ChartLayerMediaType,
			mediaType == legacyChartLayerMediaType && configMediaType == ChartConfigMediaType:
			return KindChart, i, nil
		}
	}
	return "", 0, fmt.Errorf("%w: want a layer of type %s, found config %q, artifact type %q, layers %s; select a layer by its type if it is a packed chart",
		ErrNotAChart, ChartLayerMediaType, clip(configMediaType), clip(artifactType), quoteSome(layerMediaTypes))
}

// Supported returns nil if an artifact with these media types can be installed,
// and else what Detect returns.
func Supported(configMediaType, artifactType string, layerMediaTypes []string, layerMediaType string) error {
	_, _, err := Detect(configMediaType, artifactType, layerMediaTypes, layerMediaType)
	return err
}

// quoteSome lists the first few types; a manifest may have thousands.
func quoteSome(mediaTypes []string) string {
	const limit = 5
	var quoted []string
	for i, mediaType := range mediaTypes {
		if i == limit {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(mediaTypes)-limit))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", clip(mediaType)))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// clip bounds text of others that goes into a message.
func clip(text string) string { return clipTo(120, text) }

func clipTo(limit int, text string) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
