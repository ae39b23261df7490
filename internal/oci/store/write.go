// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// Write verifies the size and the digest of content, and stores the content. It evicts other content first, so the
// running write is within the limit. The new content is pinned until the caller calls release. Errors of the reader and
// of the verification are returned unchanged. Other errors are ErrStore. They wrap ErrTryAgain if a second attempt may
// succeed.
func (s *Store) Write(desc ocispec.Descriptor, from io.Reader) (release func(), err error) {
	source := &sourceReader{from: from}
	checked := content.NewVerifyReader(source, desc)
	return s.put(desc, source, checked, func() (ocispec.Descriptor, error) { return desc, checked.Verify() })
}

// WriteFile is Write for a file whose digest and size may be unknown. The file may have at most limit bytes. If want is
// not empty, the file must have this digest. WriteFile returns the digest and the size of the file.
func (s *Store) WriteFile(want digest.Digest, limit int64, from io.Reader) (ocispec.Descriptor, func(), error) {
	source := &sourceReader{from: from}
	digester := digest.Canonical.Digester()
	size := &countingReader{from: io.TeeReader(io.LimitReader(source, limit+1), digester.Hash())}
	found := ocispec.Descriptor{Digest: want}
	release, err := s.put(ocispec.Descriptor{Digest: want, Size: limit}, source, size,
		func() (ocispec.Descriptor, error) {
			found.Digest, found.Size = digester.Digest(), size.bytes
			switch {
			case found.Size > limit:
				return found, &ocierr.Error{Kind: ocierr.ErrTooLarge, Detail: fmt.Sprintf("over %d bytes", limit)}
			case want != "" && found.Digest != want:
				return found, content.ErrMismatchedDigest
			}
			return found, nil
		})
	return found, release, err
}

// put stores the content of a reader and pins it. At the end of the content, put calls verify, which returns the
// digest. room has the expected digest and the maximum size. source is the innermost reader.
func (s *Store) put(room ocispec.Descriptor, source *sourceReader, from io.Reader,
	verify func() (ocispec.Descriptor, error),
) (release func(), err error) {
	s.reserve(room.Size)
	desc, err := s.ingest(room.Digest, from, verify)
	if err != nil {
		s.reserve(-room.Size)
		var own *ocierr.Error
		if source.err != nil || isMismatch(err) || errors.As(err, &own) {
			return nil, err
		}
		failure := storeError(room.Digest, err)
		if s.repair(room.Size, err) {
			return nil, fmt.Errorf("%w: %w", ErrTryAgain, failure)
		}
		return nil, failure
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= room.Size
	blob, ok := s.blobs.Get(desc.Digest)
	if !ok {
		blob = &stored{size: desc.Size, touched: time.Now()}
		s.blobs.Add(desc.Digest, blob)
		s.bytes += blob.size
	}
	blob.pins++
	s.evict()
	return func() { s.unpin(blob) }, nil
}

// reserve makes room for a write. A negative size returns the room.
func (s *Store) reserve(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved += size
	s.evict()
}

// storeError returns the error for content that could not be written. The error does not contain the path.
func storeError(dgst digest.Digest, err error) *ocierr.Error {
	out := &ocierr.Error{Op: "store", Subject: dgst.String(), Kind: ocierr.ErrStore, Detail: "cannot write",
		Hint: "check the size and the permissions of the cache directory"}
	var (
		path *fs.PathError
		link *os.LinkError
	)
	switch {
	case errors.As(err, &path):
		out.Detail += ": " + path.Err.Error()
	case errors.As(err, &link):
		out.Detail += ": " + link.Err.Error()
	}
	return out
}

// repair removes the cause of a failed write. It returns true if a second attempt may succeed. If the disk is full, it
// evicts at least size bytes: the disk may be shared, or smaller than the limit. If the directory was emptied, it
// creates the folders and files of the layout.
func (s *Store) repair(size int64, err error) bool {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		s.mu.Lock()
		defer s.mu.Unlock()
		before := s.bytes
		s.evictTo(max(0, before-size))
		return s.bytes < before
	case errors.Is(err, fs.ErrNotExist):
		return s.makeDirs() == nil && s.writeLayout() == nil
	default:
		return false
	}
}

// WriteBytes stores small content. Unlike Write, it does not pin the content.
func (s *Store) WriteBytes(desc ocispec.Descriptor, data []byte) error {
	release, err := s.Write(desc, bytes.NewReader(data))
	if errors.Is(err, ErrTryAgain) {
		release, err = s.Write(desc, bytes.NewReader(data))
	}
	if err != nil {
		return err
	}
	release()
	return nil
}

// ingest writes content to a temporary file. It renames the file after the content is verified. An existing file with
// this name is replaced: it is missing in the index, corrupt, or equal.
func (s *Store) ingest(want digest.Digest, from io.Reader,
	verify func() (ocispec.Descriptor, error),
) (desc ocispec.Descriptor, err error) {
	pattern := "file_*"
	if want != "" {
		pattern = want.Encoded() + "_*"
	}
	file, err := s.Create(filepath.Join(s.root, ingestDir), pattern)
	if err != nil {
		return desc, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()           // the file may be closed already
			_ = os.Remove(file.Name()) // the first error says more
		}
	}()
	if _, err := io.Copy(file, from); err != nil {
		return desc, err
	}
	if desc, err = verify(); err != nil {
		return desc, err
	}
	if err := file.Close(); err != nil {
		return desc, err
	}
	target := s.path(desc.Digest)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return desc, err
	}
	return desc, os.Rename(file.Name(), target)
}

// isMismatch reports whether err means a wrong size or a wrong digest.
func isMismatch(err error) bool {
	return errors.Is(err, content.ErrMismatchedDigest) || errors.Is(err, content.ErrTrailingData) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// sourceReader records the error of a reader. The error shows that the source failed, and not the disk.
type sourceReader struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (r *sourceReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

type countingReader struct {
	from  io.Reader
	bytes int64
}

// Read implements io.Reader.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.bytes += int64(n)
	return n, err
}
