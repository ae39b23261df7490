// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

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

// Tree holds the files of an artifact.
type Tree struct {
	*budget
	// Files has the content of the files by name, relative to the root of the artifact.
	Files map[string][]byte
}

// NewTree returns an empty Tree.
func NewTree(limits Limits, memory *Memory) *Tree {
	return &Tree{budget: newBudget(limits, ErrInvalidManifests, memory), Files: map[string][]byte{}}
}

// ReserveCopies reserves memory for the files and for a number of copies of all of them, and gives back the memory of
// former parses.
func (t *Tree) ReserveCopies(copies int64) error { return t.memory.copies(copies) }

// File adds a file.
func (t *Tree) File(name string, data []byte) error {
	if err := t.take(name, int64(len(data)), t.limits.FileBytes); err != nil {
		return err
	}
	return t.add(name, data)
}

// add adds a file whose size is already counted.
func (t *Tree) add(raw string, data []byte) error {
	name, err := safeName(raw, t.invalid)
	if err != nil {
		return err
	}
	if name = path.Clean(name); name == "." {
		return fmt.Errorf("%w: a file has no name", t.invalid)
	}
	if _, twice := t.Files[name]; twice {
		return fmt.Errorf("%w: the artifact contains %q twice", t.invalid, Clip(name))
	}
	if err := t.count(); err != nil {
		return err
	}
	t.Files[name] = bytes.TrimPrefix(data, utf8BOM)
	return nil
}

// Folder adds the files of a packed folder.
func (t *Tree) Folder(packed []byte) error {
	unzipped, err := t.unzip(packed)
	if err != nil {
		return err
	}
	return t.walk(unzipped, "it", func(header *tar.Header, from io.Reader) error {
		if header.FileInfo().IsDir() || header.Typeflag == tar.TypeXGlobalHeader {
			return t.count()
		}
		if header.Typeflag != tar.TypeReg {
			return t.notRegular(header.Name)
		}
		data, err := t.read(header, from, t.limits.FileBytes)
		if err != nil {
			return err
		}
		return t.add(header.Name, data)
	})
}

// fleetResource is a file in a list of Fleet.
type fleetResource struct {
	Name     string `json:"name"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
}

// Fleet adds the files in a list of Fleet.
func (t *Tree) Fleet(data []byte) error {
	broken := func(what string) error { return fmt.Errorf("%w: the list of files %s", t.invalid, what) }
	// Read the entries one by one: the layer could hold millions of empty entries.
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

func (t *Tree) fleetFile(one fleetResource) error {
	data := []byte(one.Content)
	if one.Encoding != "" {
		if one.Encoding != "base64" && one.Encoding != "base64+gz" {
			return fmt.Errorf("%w: %q has the unknown encoding %q", t.invalid, Clip(one.Name), Clip(one.Encoding))
		}
		var err error
		if data, err = base64.StdEncoding.DecodeString(one.Content); err != nil {
			return fmt.Errorf("%w: %q is declared as base64, but is not", t.invalid, Clip(one.Name))
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
			return fmt.Errorf("%w: %q is declared as gzip, but is not", t.invalid, Clip(one.Name))
		}
	}
	return t.File(one.Name, data)
}

// Names returns the sorted names of all files.
func (t *Tree) Names() []string { return slices.Sorted(maps.Keys(t.Files)) }

// Below returns the sorted names of the files in a folder and its subfolders. With an empty folder, it returns all
// names.
func (t *Tree) Below(folder string) []string {
	names := t.Names()
	if folder == "" {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, folder+"/") })
}

// Roots lists the root entries of an artifact, for messages.
func (t *Tree) Roots() string {
	seen := map[string]bool{}
	for name := range t.Files {
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
