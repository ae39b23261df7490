// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
)

// nonroot is the user of the manager, the same as in distroless images. The Deployment has the same user.
const nonroot = 65532

// layer describes a written layer.
type layer struct {
	diffID digest.Digest // of the tar
	digest digest.Digest // of the gzipped tar
	size   int64         // of the gzipped tar, in bytes
}

// entry is a file, or a directory if it has no content.
type entry struct {
	name    string
	mode    int64
	owner   int
	size    int64
	content io.Reader
}

// writeLayer writes the root file system as a gzipped tar. It keeps the order of the entries, so that the same input
// results in the same bytes.
func writeLayer(w io.Writer, entries []entry, modified time.Time) (layer, error) {
	compressed := digest.Canonical.Digester()
	plain := digest.Canonical.Digester()
	counter := &countingWriter{}
	zipped := gzip.NewWriter(io.MultiWriter(w, compressed.Hash(), counter))
	archive := tar.NewWriter(io.MultiWriter(zipped, plain.Hash()))
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner,
			Size: e.size, ModTime: modified, Format: tar.FormatUSTAR,
		}
		if e.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return layer{}, fmt.Errorf("%s: %w", e.name, err)
		}
		if e.content == nil {
			continue
		}
		if _, err := io.Copy(archive, e.content); err != nil {
			return layer{}, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return layer{}, err
	}
	if err := zipped.Close(); err != nil {
		return layer{}, err
	}
	return layer{diffID: plain.Digest(), digest: compressed.Digest(), size: counter.n}, nil
}

type countingWriter struct{ n int64 }

// Write counts the bytes.
func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
