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
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"helm.sh/helm/v3/pkg/chart/loader"
)

const (
	// maxDepth is how deep packed subcharts may be nested; charts in use have one
	// or two levels.
	maxDepth = 8
	// packedSuffix stands for ".tgz" in the names of unpacked subcharts: Helm would
	// take a folder with that ending for an archive again.
	packedSuffix = "~tgz"
	// maxNameLength is what file systems take.
	maxNameLength = 1024
)

var (
	drivePath = regexp.MustCompile(`^[A-Za-z]:`)
	utf8BOM   = []byte("\xef\xbb\xbf")
)

// unpacker reads a packed chart and the packed subcharts in it into one list of
// files, under one budget. Helm's own reader gives every packed subchart a new
// budget, so a small archive could unpack to any size.
type unpacker struct {
	limits Limits
	files  []*loader.BufferedFile
	names  map[string]bool
	bytes  int64
	// entries counts what is skipped too, so that it cannot be made endless.
	entries int
	// left is what may still be unzipped. It bounds headers, padding and skipped
	// entries too, which no file accounts for.
	left int64
}

// unpack returns the files of a chart, named from the chart's root, and their
// size in bytes.
func unpack(packed []byte, limits Limits) ([]*loader.BufferedFile, int64, error) {
	if int64(len(packed)) > limits.PackedBytes {
		return nil, 0, fmt.Errorf("%w: packed it has %d bytes, limit %d", ErrTooLarge, len(packed), limits.PackedBytes)
	}
	u := &unpacker{limits: limits, names: map[string]bool{}, left: 2*limits.UnpackedBytes + 1<<20}
	if err := u.archive(packed, "", 0); err != nil {
		return nil, 0, err
	}
	return u.files, u.bytes, nil
}

// archive adds the files of one packed chart under a prefix.
func (u *unpacker) archive(packed []byte, prefix string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: subcharts are packed more than %d deep at %q", ErrTooLarge, maxDepth, clip(prefix))
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("%w: %s is not a gzip archive", ErrInvalidChart, where(prefix))
	}
	entries := tar.NewReader(budgetReader{from: unzipped, left: &u.left})
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errBudget) {
			return u.tooLarge()
		}
		if err != nil {
			return fmt.Errorf("%w: %s is not a complete tar archive", ErrInvalidChart, where(prefix))
		}
		if u.entries++; u.entries > u.limits.Files {
			return fmt.Errorf("%w: more than %d files", ErrTooLarge, u.limits.Files)
		}
		if err := u.entry(header, entries, prefix, depth); err != nil {
			return err
		}
	}
}

// errBudget says that more was unzipped than all archives together may hold.
var errBudget = errors.New("over budget")

// budgetReader takes what it reads from a budget that it shares with others.
type budgetReader struct {
	from io.Reader
	left *int64
}

// Read implements io.Reader.
func (r budgetReader) Read(p []byte) (int, error) {
	if *r.left <= 0 {
		return 0, errBudget
	}
	if int64(len(p)) > *r.left {
		p = p[:*r.left]
	}
	n, err := r.from.Read(p)
	*r.left -= int64(n)
	return n, err
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
		if matters(name) {
			return fmt.Errorf("%w: %q is a link or device; package the chart with regular files", ErrInvalidChart, clip(name))
		}
		return nil // a linked README changes nothing
	}
	data, err := u.read(header, from, name)
	if err != nil {
		return err
	}
	full := prefix + name
	if isPackedSubchart(name) {
		return u.archive(data, strings.TrimSuffix(full, ".tgz")+packedSuffix+"/", depth+1)
	}
	if u.names[full] {
		return fmt.Errorf("%w: %q is in the archive twice", ErrInvalidChart, clip(full))
	}
	u.names[full] = true
	u.files = append(u.files, &loader.BufferedFile{Name: full, Data: bytes.TrimPrefix(data, utf8BOM)})
	return nil
}

// read returns the content of an entry within the limits.
func (u *unpacker) read(header *tar.Header, from io.Reader, name string) ([]byte, error) {
	left := u.limits.UnpackedBytes - u.bytes
	if header.Size > left {
		return nil, u.tooLarge()
	}
	limit := u.limits.FileBytes
	if isPackedSubchart(name) {
		limit = u.limits.PackedBytes
	}
	if header.Size > limit {
		return nil, fmt.Errorf("%w: %q has %d bytes, limit %d", ErrTooLarge, clip(header.Name), header.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(from, header.Size))
	if errors.Is(err, errBudget) {
		return nil, u.tooLarge()
	}
	if err != nil || int64(len(data)) != header.Size {
		return nil, fmt.Errorf("%w: %q is cut off", ErrInvalidChart, clip(header.Name))
	}
	u.bytes += header.Size
	return data, nil
}

func (u *unpacker) tooLarge() error {
	return fmt.Errorf("%w: unpacked it is over %d bytes", ErrTooLarge, u.limits.UnpackedBytes)
}

// entryName returns the name of an entry below the archive's one folder, or
// why it is refused.
func entryName(raw string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("%w: entry %q %s", ErrInvalidChart, clip(raw), why)
	}
	switch {
	case len(raw) > maxNameLength:
		return refuse("has too long a name")
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, unicode.IsControl):
		return refuse("has a name that is no printable text")
	}
	slashed := strings.ReplaceAll(raw, `\`, "/") // packed on Windows
	_, name, ok := strings.Cut(strings.TrimPrefix(slashed, "./"), "/")
	if !ok || name == "" {
		return refuse("is not in the chart's folder; package the chart with \"helm package\"")
	}
	if path.IsAbs(slashed) || path.IsAbs(name) || drivePath.MatchString(slashed) || drivePath.MatchString(name) {
		return refuse("has an absolute path")
	}
	for part := range strings.SplitSeq(slashed, "/") {
		if part == ".." {
			return refuse("leads out of the chart's folder")
		}
	}
	if name = path.Clean(name); name == "." {
		return refuse("is not in the chart's folder")
	}
	return name, nil
}

// isPackedSubchart tells files directly in a charts folder, of the chart or of
// an unpacked subchart, that Helm takes for a packed subchart. Names that begin
// with "_" or "." are left out, as Helm does.
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

// matters tells entries whose absence would change what is installed.
func matters(name string) bool {
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
	return fmt.Sprintf("subchart %q", clip(strings.TrimSuffix(prefix, packedSuffix+"/")+".tgz"))
}
