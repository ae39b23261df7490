// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"fmt"
	"strings"
)

// File is a file of an artifact.
type File struct {
	// Name is relative to the root of the artifact, for a chart to its folder, with "/" between its parts.
	Name string
	Data []byte
}

// Files returns what an artifact is, and the files in it, under the default limits. Of an image, only those below
// /manifests are. What is selected of it, but for format and layer, does not matter.
func Files(ctx context.Context, src Source) (format Format, files []File, err error) {
	src.Path, src.Templates = "", false
	format, layers, data, err := src.content(ctx)
	if err != nil {
		return format, nil, err
	}
	limits := Limits{}.withDefaults()
	if format == FormatHelmChart {
		unpacked, _, err := unpack(data[0], limits)
		for _, file := range unpacked {
			files = append(files, File{Name: strings.ReplaceAll(file.Name, packedSuffix, ".tgz"), Data: file.Data})
		}
		return format, files, err
	}
	all, err := filesOf(&src, format, layers, data, limits)
	if err != nil {
		return format, nil, err
	}
	for _, name := range all.names() {
		files = append(files, File{Name: name, Data: all.files[name]})
	}
	return format, files, nil
}

// content tells what an artifact is and reads the layers that matter.
func (s *Source) content(ctx context.Context) (Format, []int, [][]byte, error) {
	format, layers, err := Detect(s.Manifest, s.Selection)
	if err != nil {
		return format, nil, nil, err
	}
	data, err := s.readWithin(ctx, layers, Limits{}.withDefaults())
	return format, layers, data, err
}

// errUnreadable is what there is to say when a parser panics.
func errUnreadable() error { return fmt.Errorf("%w: reading them failed", ErrInvalidManifests) }
