// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files writes the files of a release: archives of the command line, checksums, and the manifest of Krew. The
// same input always results in the same bytes.
package files

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"time"
)

// File is a file of an archive.
type File struct {
	// Name is the name in the archive.
	Name string
	// Executable sets the permissions 0755 instead of 0644.
	Executable bool
	// Content is the content.
	Content []byte
}

func (f File) mode() int64 {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// Archive returns an archive of files, in their order, with one time for all files. A name that ends in ".zip" makes a
// zip archive, ".tar.gz" a gzipped tar archive.
func Archive(name string, modified time.Time, files ...File) ([]byte, error) {
	switch {
	case strings.HasSuffix(name, ".zip"):
		return zipped(modified, files)
	case strings.HasSuffix(name, ".tar.gz"):
		return tarred(modified, files)
	default:
		return nil, fmt.Errorf("the name %q ends neither in .zip nor in .tar.gz", name)
	}
}

func tarred(modified time.Time, files []File) ([]byte, error) {
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: file.Name, Mode: file.mode(), Size: int64(len(file.Content)),
			ModTime: modified.UTC(), Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func zipped(modified time.Time, files []File) ([]byte, error) {
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: modified.UTC()}
		header.SetMode(0o644)
		if file.Executable {
			header.SetMode(0o755)
		}
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
