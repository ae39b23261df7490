// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files writes the files of a release: archives of the command line, checksums, and the manifest of Krew. The
// same input always results in the same bytes. The package builds and signs nothing: callers pass the content.
package files

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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
	// Modified is the time that Unpack found. Archive ignores it.
	Modified time.Time
}

func (f File) mode() int64 {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// Archive returns an archive with files in the given order, with one time for all files. A name that ends in ".zip"
// gives a zip archive, ".tar.gz" a gzipped tar archive.
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

// Unpack returns the files of an archive that Archive made, in their order.
func Unpack(name string, archive []byte) ([]File, error) {
	if strings.HasSuffix(name, ".zip") {
		return unzipped(archive)
	}
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	var found []File
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return nil, err
		}
		found = append(found, File{Name: header.Name, Executable: header.Mode&0o111 != 0, Content: content,
			Modified: header.ModTime.UTC()})
	}
}

func unzipped(archive []byte) ([]File, error) {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	var found []File
	for _, entry := range files.File {
		r, err := entry.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		found = append(found, File{Name: entry.Name, Executable: entry.Mode()&0o111 != 0, Content: content,
			Modified: entry.Modified.UTC()})
	}
	return found, nil
}
