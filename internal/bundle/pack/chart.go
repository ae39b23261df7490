// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
)

// chartFile makes a folder a chart.
const chartFile = "Chart.yaml"

// packHelm packs a chart's folder, or takes an archive as it is.
func packHelm(name string, options Options) (*draft, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	var packed []byte
	if info.IsDir() {
		packed, err = packChart(name, options.MaxBytes)
	} else {
		left := options.MaxBytes
		packed, err = readFile(name, &left)
	}
	if err != nil {
		return nil, err
	}
	// It is read as the manager will read it, so that what cannot be installed is not pushed.
	meta, err := bundle.ReadMetadata(packed)
	if err != nil {
		return nil, invalid("%s: %v", name, err)
	}
	config, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	return &draft{
		config:      newBlob(bundle.ChartConfigMediaType, config),
		layers:      []Blob{newBlob(bundle.ChartLayerMediaType, packed)},
		annotations: chartAnnotations(meta),
		name:        meta.Name,
		version:     meta.Version,
	}, nil
}

// packChart packs a chart's folder. What .helmignore names is left out.
func packChart(name string, limit int64) ([]byte, error) {
	// Helm's reader has no limit of its own.
	if _, err := readTree(name, limit); err != nil {
		return nil, err
	}
	loaded, err := loader.LoadDir(name)
	if err != nil {
		return nil, invalid("%s: %v", name, err)
	}
	var files []file
	for _, raw := range loaded.Raw {
		files = append(files, file{name: raw.Name, content: raw.Data})
	}
	slices.SortFunc(files, func(a, b file) int {
		// Some tools expect Chart.yaml to be the first entry.
		if (a.name == chartFile) != (b.name == chartFile) {
			if a.name == chartFile {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	packed, _, err := archive(files, path.Clean(loaded.Name())+"/")
	return packed, err
}

// chartAnnotations are what "helm push" says of a chart.
func chartAnnotations(meta *chart.Metadata) map[string]string {
	annotations := map[string]string{ocispec.AnnotationTitle: meta.Name, ocispec.AnnotationVersion: meta.Version}
	if meta.Description != "" {
		annotations[ocispec.AnnotationDescription] = meta.Description
	}
	if meta.Home != "" {
		annotations[ocispec.AnnotationURL] = meta.Home
	}
	if len(meta.Sources) > 0 {
		annotations[ocispec.AnnotationSource] = meta.Sources[0]
	}
	return annotations
}
