// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
)

// file is a file by its name below the folder that is packed, with slashes.
type file struct {
	name    string
	content []byte
}

// isManifest tells the files that can hold objects.
func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// versionControl are folders that no artifact is meant to have.
var versionControl = map[string]bool{".git": true, ".hg": true, ".svn": true, ".bzr": true}

// readTree reads a folder, or one file, in the order of names. Folders of version control are left out.
func readTree(root string, limit int64) ([]file, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		content, err := readFile(root, &limit)
		return []file{{name: filepath.Base(root), content: content}}, err
	}
	var files []file
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && versionControl[entry.Name()]:
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		case !entry.Type().IsRegular():
			return invalid("%s is a link or a device; pack regular files", name)
		}
		content, err := readFile(name, &limit)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, name)
		files = append(files, file{name: filepath.ToSlash(below), content: content})
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}

// readFile reads a file and takes its size from what is left.
func readFile(name string, left *int64) ([]byte, error) {
	opened, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(opened, *left+1))
	if err != nil {
		return nil, err
	}
	if *left -= int64(len(content)); *left < 0 {
		return nil, fmt.Errorf("%w: the limit is exceeded at %s", ErrTooLarge, name)
	}
	return content, nil
}

// readManifests reads the files of a folder that can hold objects, of which there must be some. A kustomization may name files of any
// kind: beside one all are read.
func readManifests(root string, limit int64) ([]file, error) {
	files, err := readTree(root, limit)
	if err != nil {
		return nil, err
	}
	if _, ok := kustomizationIn(files); ok {
		return files, nil
	}
	files = slices.DeleteFunc(files, func(f file) bool { return !isManifest(f.name) })
	if len(files) == 0 {
		return nil, invalid("%s has no files that end with .yaml, .yml or .json", root)
	}
	return files, nil
}

// kustomizationIn tells the first kustomization.
func kustomizationIn(files []file) (string, bool) {
	return firstOf(files, func(f file) bool { return bundle.IsKustomization(f.name) })
}

// inFolder tells the first file that is in a folder.
func inFolder(files []file) (string, bool) {
	return firstOf(files, func(f file) bool { return strings.Contains(f.name, "/") })
}

func firstOf(files []file, is func(file) bool) (string, bool) {
	i := slices.IndexFunc(files, is)
	if i < 0 {
		return "", false
	}
	return files[i].name, true
}

// archive packs files under a prefix, the same way each time: with no owners and no times. It returns the archive packed and unpacked.
func archive(files []file, prefix string) (packed, unpacked []byte, err error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.name, Mode: 0o644, Size: int64(len(f.content)), Format: tar.FormatPAX}
		if err := writer.WriteHeader(header); err != nil {
			return nil, nil, invalid("%s: %v", f.name, err)
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, nil, err
	}
	packed, err = compress(out.Bytes())
	return packed, out.Bytes(), err
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(data); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
