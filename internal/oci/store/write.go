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

// Write stores content after it has verified size and digest. It pins the content, so that the
// content is not evicted before it is read. It makes room first, so that the limit includes the
// running write. Errors of the reader and of the verification are returned as they are. Other
// errors are ErrStore, with ErrTryAgain if a second attempt may succeed.
func (s *Store) Write(desc ocispec.Descriptor, from io.Reader) (release func(), err error) {
	source := &sourceReader{from: from}
	checked := content.NewVerifyReader(source, desc)
	return s.put(desc, source, checked, func() (ocispec.Descriptor, error) { return desc, checked.Verify() })
}

// WriteFile is Write for a file whose digest and size may be unknown. The file has at most limit bytes. If want is
// not empty, the file must have this digest. It returns the digest and the size of the file.
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

// put stores the content of a reader under the digest that verify returns at its end, and pins it. room has the
// expected digest, and the size to make room for. source is the innermost reader.
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

// reserve makes room for a write. With a negative size, it gives the room back.
func (s *Store) reserve(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved += size
	s.evict()
}

// storeError returns the error for content that could not be written, without the path.
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

// repair removes the cause of a failed write of size bytes and reports whether a second attempt may
// succeed. On a full disk, it evicts at least as many bytes: the disk may be smaller than the
// limit, or shared. In an emptied directory, it creates the folders and files of the layout.
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

// WriteBytes stores small content. Unlike Write, it does not pin it.
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

// ingest writes to a temporary file and renames it after the content is verified. It replaces an
// existing file, which is missing in the index, corrupt, or the same.
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
			_ = file.Close()           // may be closed already
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

// isMismatch reports whether content does not have the expected size or digest.
func isMismatch(err error) bool {
	return errors.Is(err, content.ErrMismatchedDigest) || errors.Is(err, content.ErrTrailingData) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// sourceReader records the error of a reader, to distinguish a broken connection from a full disk.
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

// countingReader counts the bytes of a reader.
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
