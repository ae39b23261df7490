// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
)

// File is a file of an artifact.
type File struct {
	// Name is relative to the root of the artifact, or to the folder of a chart, with "/" as separator.
	Name string
	Data []byte
}

// Files returns the format and the files of an artifact. The default limits apply. For an image, Files returns the
// files below /manifests. Files uses only Format and LayerMediaType of the Selection.
func Files(ctx context.Context, src Source) (format Format, files []File, err error) {
	src.Path, src.Templates = "", false
	format, layers, data, err := src.content(ctx)
	if err != nil {
		return format, nil, err
	}
	limits := Limits{}.WithDefaults()
	if format == FormatHelmChart {
		unpacked, _, err := unpack.Chart(data[0], limits, nil)
		for _, file := range unpacked {
			files = append(files, File{Name: unpack.PackedName(file.Name), Data: file.Data})
		}
		return format, files, err
	}
	all, err := filesOf(&src, format, layers, data, limits, nil)
	if err != nil {
		return format, nil, err
	}
	for _, name := range all.Names() {
		files = append(files, File{Name: name, Data: all.Files[name]})
	}
	return format, files, nil
}

// ReadMetadata returns the metadata of a packed chart. The default limits apply. Errors are ErrInvalidChart and
// ErrTooLarge.
func ReadMetadata(packed []byte) (*chart.Metadata, error) {
	limits := Limits{}.WithDefaults()
	files, _, err := unpack.Chart(packed, limits, nil)
	if err != nil {
		return nil, err
	}
	c, err := parse(files, limits, nil)
	if err != nil {
		return nil, err
	}
	return c.Metadata, nil
}

// content detects the format and reads the relevant layers.
func (s *Source) content(ctx context.Context) (Format, []int, [][]byte, error) {
	format, layers, err := Detect(s.Manifest, s.Selection)
	if err != nil {
		return format, nil, nil, err
	}
	data, err := s.readWithin(ctx, format, layers, Limits{}.WithDefaults())
	return format, layers, data, err
}

// errUnreadable is the error for a panic in a parser.
func errUnreadable() error { return fmt.Errorf("%w: reading them failed", ErrInvalidManifests) }
