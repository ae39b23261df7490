// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
)

const (
	// MaxDepth is the maximum depth of nested packed subcharts. Known charts have one or two levels.
	MaxDepth = 8
	// packedSuffix replaces ".tgz" in the names of unpacked subcharts. With ".tgz", Helm would read the folder as an
	// archive.
	packedSuffix = "~tgz"
)

var utf8BOM = []byte("\xef\xbb\xbf")

// unpacker reads a packed chart and its packed subcharts into one list of files, with one budget. Helm's reader starts
// a new budget for every packed subchart, so a small archive could unpack to any size.
type unpacker struct {
	*budget
	files []*loader.BufferedFile
	names map[string]bool
}

// Chart returns the files of a packed chart and their size in bytes. The names of the files are relative to the root of
// the chart. Packed subcharts are unpacked too, see [PackedName].
func Chart(packed []byte, limits Limits, memory *Memory) ([]*loader.BufferedFile, int64, error) {
	u := &unpacker{budget: newBudget(limits, ErrInvalidChart, memory), names: map[string]bool{}}
	if err := CheckPacked(int64(len(packed)), limits); err != nil {
		return nil, 0, err
	}
	if err := u.archive(packed, "", 0); err != nil {
		return nil, 0, err
	}
	return u.files, u.bytes, nil
}

// archive adds the files of one packed chart. prefix is added to their names.
func (u *unpacker) archive(packed []byte, prefix string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("%w: subcharts are nested more than %d levels deep at %q", ErrTooLarge, MaxDepth, Clip(prefix))
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("%w: %s is not a gzip archive", ErrInvalidChart, where(prefix))
	}
	return u.walk(unzipped, where(prefix), func(header *tar.Header, from io.Reader) error {
		if err := u.count(); err != nil {
			return err
		}
		return u.entry(header, from, prefix, depth)
	})
}

// entry adds one entry of an archive.
func (u *unpacker) entry(header *tar.Header, from io.Reader, prefix string, depth int) error {
	if header.FileInfo().IsDir() || header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := entryName(header.Name)
	if err != nil {
		return err
	}
	if header.Typeflag != tar.TypeReg {
		if isRelevant(name) {
			return fmt.Errorf("%w: %q is a link or device; package the chart with regular files only", ErrInvalidChart,
				Clip(name))
		}
		return nil // skip the link: it does not change what is installed
	}
	limit := u.limits.FileBytes
	if isPackedSubchart(name) {
		limit = u.limits.PackedBytes
	}
	data, err := u.read(header, from, limit)
	if err != nil {
		return err
	}
	full := prefix + name
	if isPackedSubchart(name) {
		return u.archive(data, strings.TrimSuffix(full, ".tgz")+packedSuffix+"/", depth+1)
	}
	if u.names[full] {
		return fmt.Errorf("%w: the archive contains %q twice", ErrInvalidChart, Clip(full))
	}
	u.names[full] = true
	u.files = append(u.files, &loader.BufferedFile{Name: full, Data: bytes.TrimPrefix(data, utf8BOM)})
	return nil
}

// entryName returns the name of an entry, relative to the chart's only folder.
func entryName(raw string) (string, error) {
	slashed, err := safeName(raw, ErrInvalidChart)
	if err != nil {
		return "", err
	}
	_, name, ok := strings.Cut(strings.TrimPrefix(slashed, "./"), "/")
	switch {
	case path.IsAbs(name) || drivePath.MatchString(name):
		return "", fmt.Errorf("%w: entry %q has an absolute path", ErrInvalidChart, Clip(raw))
	case !ok, path.Clean(name) == ".":
		return "", fmt.Errorf("%w: entry %q is not in the chart's folder; package the chart with \"helm package\"",
			ErrInvalidChart, Clip(raw))
	}
	return path.Clean(name), nil
}

// isPackedSubchart is true for a file directly in a folder charts that Helm reads as a packed subchart. Like Helm, it
// is false for names that start with "_" or ".".
func isPackedSubchart(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts)%2 != 0 {
		return false
	}
	for i := 0; i < len(parts); i += 2 {
		if parts[i] != "charts" || strings.HasPrefix(parts[i+1], "_") || strings.HasPrefix(parts[i+1], ".") {
			return false
		}
	}
	return strings.HasSuffix(name, ".tgz")
}

// isRelevant is true if Helm reads the entry for an installation. An irrelevant link can be skipped.
func isRelevant(name string) bool {
	switch name {
	case "Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "requirements.yaml":
		return true
	}
	for _, folder := range []string{"templates/", "crds/", "charts/"} {
		if strings.HasPrefix(name, folder) || strings.HasPrefix(folder, name+"/") {
			return true
		}
	}
	return false
}

func where(prefix string) string {
	if prefix == "" {
		return "it"
	}
	return fmt.Sprintf("subchart %q", Clip(strings.TrimSuffix(PackedName(prefix), "/")))
}

// PackedName replaces the names of unpacked subcharts in a text by their original names, which end with ".tgz".
func PackedName(text string) string { return strings.ReplaceAll(text, packedSuffix, ".tgz") }
