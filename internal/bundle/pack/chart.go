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

// chartFile marks a folder as a chart.
const chartFile = "Chart.yaml"

// packHelm packs the folder of a chart, or uses an archive unchanged.
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
	// Read the chart as the manager does, so that a chart that cannot be installed is not pushed.
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

// packChart packs the folder of a chart, without the files in .helmignore.
func packChart(name string, limit int64) ([]byte, error) {
	// Helm's reader has no limit.
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

// chartAnnotations returns the annotations that "helm push" sets.
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
