// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// tree holds the files of an artifact by name, relative to its root.
type tree struct {
	*budget
	files map[string][]byte
}

func newTree(limits Limits) *tree {
	return &tree{budget: newBudget(limits, ErrInvalidManifests), files: map[string][]byte{}}
}

// add adds a file.
func (t *tree) add(raw string, data []byte) error {
	name, err := safeName(raw, t.invalid)
	if err != nil {
		return err
	}
	if name = path.Clean(name); name == "." {
		return fmt.Errorf("%w: a file has no name", t.invalid)
	}
	if _, twice := t.files[name]; twice {
		return fmt.Errorf("%w: the artifact contains %q twice", t.invalid, clip(name))
	}
	if t.entries++; t.entries > t.limits.Files {
		return t.tooMany()
	}
	t.files[name] = bytes.TrimPrefix(data, utf8BOM)
	return nil
}

// folder adds the files of a packed folder.
func (t *tree) folder(packed []byte) error {
	unzipped, err := t.unzip(packed)
	if err != nil {
		return err
	}
	return t.walk(unzipped, "it", func(header *tar.Header, from io.Reader) error {
		if header.FileInfo().IsDir() || header.Typeflag == tar.TypeXGlobalHeader {
			if t.entries++; t.entries > t.limits.Files {
				return t.tooMany()
			}
			return nil
		}
		if header.Typeflag != tar.TypeReg {
			return fmt.Errorf("%w: %q is a link or device; only regular files are supported", t.invalid, clip(header.Name))
		}
		data, err := t.read(header, from, t.limits.FileBytes)
		if err != nil {
			return err
		}
		return t.add(header.Name, data)
	})
}

// unzip returns a reader for a tar archive, decompressed if it is gzipped.
func (b *budget) unzip(packed []byte) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(packed, []byte{0x1f, 0x8b}):
		unzipped, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, fmt.Errorf("%w: it is not a gzip archive", b.invalid)
		}
		return unzipped, nil
	case bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return nil, fmt.Errorf("%w: it is compressed with zstd; compress it with gzip", b.invalid)
	}
	return bytes.NewReader(packed), nil
}

// fleetResource is a file in Fleet's list.
type fleetResource struct {
	Name     string `json:"name"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
}

// fleet adds the files of Fleet's list.
func (t *tree) fleet(data []byte) error {
	broken := func(what string) error { return fmt.Errorf("%w: the list of files %s", t.invalid, what) }
	// Entries are read one by one, because millions of empty ones would fit into the layer.
	list := json.NewDecoder(bufio.NewReader(bytes.NewReader(data)))
	if open, err := list.Token(); err != nil || open != json.Delim('{') {
		return broken("is not a JSON object")
	}
	for list.More() {
		key, err := list.Token()
		if err != nil {
			return broken("is not a complete JSON object")
		}
		if key != "resources" {
			var skipped json.RawMessage
			if list.Decode(&skipped) != nil {
				return broken("is not a complete JSON object")
			}
			continue
		}
		if open, err := list.Token(); err != nil || open != json.Delim('[') {
			return broken("has no list under \"resources\"")
		}
		for list.More() {
			var one fleetResource
			if list.Decode(&one) != nil {
				return broken("has an entry that is not an object with name, content and encoding")
			}
			if err := t.fleetFile(one); err != nil {
				return err
			}
		}
		if _, err := list.Token(); err != nil {
			return broken("is not a complete JSON object")
		}
	}
	return nil
}

func (t *tree) fleetFile(one fleetResource) error {
	data := []byte(one.Content)
	if one.Encoding != "" {
		if one.Encoding != "base64" && one.Encoding != "base64+gz" {
			return fmt.Errorf("%w: %q has the unknown encoding %q", t.invalid, clip(one.Name), clip(one.Encoding))
		}
		var err error
		if data, err = base64.StdEncoding.DecodeString(one.Content); err != nil {
			return fmt.Errorf("%w: %q is declared as base64, but is not", t.invalid, clip(one.Name))
		}
	}
	if one.Encoding == "base64+gz" {
		unzipped, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(budgetReader{from: unzipped, remaining: &t.remaining}, t.limits.FileBytes+1))
		}
		if errors.Is(err, errBudget) {
			return t.tooLarge()
		}
		if err != nil {
			return fmt.Errorf("%w: %q is declared as gzip, but is not", t.invalid, clip(one.Name))
		}
	}
	if err := t.take(one.Name, int64(len(data)), t.limits.FileBytes); err != nil {
		return err
	}
	return t.add(one.Name, data)
}

// names returns the sorted names of all files.
func (t *tree) names() []string { return slices.Sorted(maps.Keys(t.files)) }

// below returns the sorted names of the files in a folder and its subfolders; of all files if it is empty.
func (t *tree) below(folder string) []string {
	names := t.names()
	if folder == "" {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, folder+"/") })
}

// roots lists the root entries of an artifact for messages.
func (t *tree) roots() string {
	seen := map[string]bool{}
	for name := range t.files {
		first, _, isFolder := strings.Cut(name, "/")
		if isFolder {
			first += "/"
		}
		seen[first] = true
	}
	return listSome(slices.Sorted(maps.Keys(seen)))
}

// listSome lists the first few names.
func listSome(names []string) string {
	const limit = 8
	var quoted []string
	for i, name := range names {
		if i == limit {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(names)-limit))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", truncate.Text(name, 40)))
	}
	if len(quoted) == 0 {
		return "nothing"
	}
	return strings.Join(quoted, ", ")
}
