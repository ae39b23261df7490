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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/kustomize"
)

// file is a file with its name relative to the packed folder, with slashes.
type file struct {
	name    string
	content []byte
}

// isManifest reports whether a file can contain objects.
func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// versionControl are the folders of version control systems. They are not packed.
var versionControl = map[string]bool{".git": true, ".hg": true, ".svn": true, ".bzr": true}

// readTree reads a folder or one file. The result is sorted by name, without folders of version control.
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

// readFile reads a file and subtracts its size from left.
func readFile(name string, left *int64) ([]byte, error) {
	opened, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // the file is only read
	content, err := io.ReadAll(io.LimitReader(opened, *left+1))
	if err != nil {
		return nil, err
	}
	if *left -= int64(len(content)); *left < 0 {
		return nil, fmt.Errorf("%w: the limit is exceeded at %s", errTooLarge, name)
	}
	return content, nil
}

// readManifests reads the files of a folder that can hold objects. At least one such file must exist. If there is a
// kustomization, it reads all files, because a kustomization may use files of any kind.
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

// kustomizationIn returns the first kustomization.
func kustomizationIn(files []file) (string, bool) {
	return firstOf(files, func(f file) bool { return kustomize.IsKustomization(f.name) })
}

// inFolder returns the first file in a subfolder.
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

// archive packs files under a prefix reproducibly, without owners and times. It returns the compressed and the
// uncompressed archive.
func archive(files []file, prefix string) (packed, unpacked []byte, err error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     prefix + f.name,
			Mode:     0o644,
			Size:     int64(len(f.content)),
			Format:   tar.FormatPAX,
		}
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
