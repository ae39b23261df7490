// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// ingestDir holds temporary files. It is on the same file system as the blobs, so that files can
	// be renamed.
	ingestDir = "ingest"
	// maxStored bounds the number of blobs of any size.
	maxStored = 100_000
	// touchInterval is the precision at which the order of use survives a restart.
	touchInterval = 10 * time.Minute
)

// errTryAgain means that a write failed and that the store has removed the cause: it made room on a
// full disk, or restored its emptied directory.
var errTryAgain = errors.New("the store was repaired")

// store is an OCI image layout with a size limit. A write uses a temporary file, a check and a
// rename. A read checks the content again. The least recently used content is evicted, except for
// pinned content that is being read.
//
// The store does not use the protocol library's layout, which has no limit and leaves its temporary
// file behind when a check fails.
type store struct {
	root     string
	maxBytes int64
	// create creates temporary files; tests replace it to simulate failures.
	create func(dir, pattern string) (tempFile, error)

	mu    sync.Mutex
	blobs *lru.LRU[digest.Digest, *stored]
	bytes int64
	// reserved is the total size of the running writes.
	reserved int64
}

type stored struct {
	size    int64
	pins    int
	touched time.Time
}

// tempFile is the part of *os.File that writes need.
type tempFile interface {
	io.WriteCloser
	Name() string
}

func createTemp(dir, pattern string) (tempFile, error) { return os.CreateTemp(dir, pattern) }

// openStore opens or creates the layout in dir and registers its content.
func openStore(dir string, maxBytes int64) (*store, error) {
	s := &store{root: dir, maxBytes: maxBytes, create: createTemp}
	var err error
	if s.blobs, err = lru.NewLRU(maxStored+1, s.removed); err != nil {
		return nil, err
	}
	// Remove temporary files first, because they may have filled the disk.
	if err := s.makeDirs(); err != nil {
		return nil, err
	}
	s.removeIngests()
	if err := s.scan(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.evict()
	s.mu.Unlock()
	return s, s.writeLayout()
}

func (s *store) makeDirs() error {
	for _, dir := range []string{ocispec.ImageBlobsDir, ingestDir} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// writeLayout writes the two files of an OCI layout if they are missing. The index stays empty,
// because content is looked up by digest only.
func (s *store) writeLayout() error {
	files := map[string]string{
		ocispec.ImageLayoutFile: `{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`,
		ocispec.ImageIndexFile:  `{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[]}`,
	}
	for name, text := range files {
		path := filepath.Join(s.root, name)
		if data, err := os.ReadFile(path); err == nil && string(data) == text {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// scan registers the blobs of an earlier process, least recently used first.
func (s *store) scan() error {
	type found struct {
		digest digest.Digest
		size   int64
		used   time.Time
	}
	var all []found
	err := filepath.WalkDir(filepath.Join(s.root, ocispec.ImageBlobsDir),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			dgst := digest.NewDigestFromEncoded(digest.Algorithm(filepath.Base(filepath.Dir(path))), entry.Name())
			if ours := entry.Type().IsRegular() && dgst.Validate() == nil; !ours {
				return nil
			}
			info, err := entry.Info()
			if err == nil {
				all = append(all, found{digest: dgst, size: info.Size(), used: info.ModTime()})
			}
			return ignoreGone(err)
		})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b found) int { return a.used.Compare(b.used) })
	for _, blob := range all {
		s.blobs.Add(blob.digest, &stored{size: blob.size, touched: blob.used})
		s.bytes += blob.size
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeIngests removes the temporary files of an earlier process. No other process writes to the
// directory, because it belongs to one Client.
func (s *store) removeIngests() {
	dir := filepath.Join(s.root, ingestDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // costs space only
	}
	for _, entry := range entries {
		_ = os.Remove(filepath.Join(dir, entry.Name())) // costs space only
	}
}

// read returns content of at most limit bytes, verified against its digest. It drops corrupt
// content. Errors are errNotStored and ErrTooLarge.
func (s *store) read(dgst digest.Digest, limit int64) ([]byte, error) {
	blob, ok := s.pin(dgst)
	if !ok {
		return nil, ocierr.ErrNotStored
	}
	defer s.unpin(blob)
	if blob.size > limit {
		return nil, &ocierr.Error{Op: "read", Subject: dgst.String(), Kind: ocierr.ErrTooLarge,
			Detail: fmt.Sprintf("%d bytes; the limit is %d", blob.size, limit)}
	}
	desc := ocispec.Descriptor{Digest: dgst, Size: blob.size}
	file, err := os.Open(s.path(dgst))
	if err != nil {
		s.drop(dgst, blob)
		return nil, ocierr.ErrNotStored
	}
	checked := content.NewVerifyReader(file, desc)
	data := make([]byte, blob.size)
	_, err = io.ReadFull(checked, data)
	if err == nil {
		err = checked.Verify()
	}
	_ = file.Close() // it was only read
	if err != nil {
		s.drop(dgst, blob)
		return nil, ocierr.ErrNotStored
	}
	return data, nil
}

// write stores content after it has verified size and digest. It pins the content, so that the
// content is not evicted before it is read. It makes room first, so that the limit includes the
// running write. Errors of the reader and of the verification are returned as they are. Other
// errors are ErrStore, with errTryAgain if a second attempt may succeed.
func (s *store) write(desc ocispec.Descriptor, from io.Reader) (release func(), err error) {
	source := &sourceReader{from: from}
	checked := content.NewVerifyReader(source, desc)
	return s.put(desc, source, checked, func() (ocispec.Descriptor, error) { return desc, checked.Verify() })
}

// writeFile is write for a file whose digest and size may be unknown. The file has at most limit bytes. If want is
// not empty, the file must have this digest. It returns the digest and the size of the file.
func (s *store) writeFile(want digest.Digest, limit int64, from io.Reader) (ocispec.Descriptor, func(), error) {
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
func (s *store) put(room ocispec.Descriptor, source *sourceReader, from io.Reader,
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
			return nil, fmt.Errorf("%w: %w", errTryAgain, failure)
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
func (s *store) reserve(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved += size
	s.evict()
}

// size returns the size of the content in the store, and whether the store has it.
func (s *store) size(dgst digest.Digest) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob, ok := s.blobs.Peek(dgst)
	if !ok {
		return 0, false
	}
	return blob.size, true
}

// has reports whether the store has the content. Only read verifies that the content is intact.
func (s *store) has(dgst digest.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs.Contains(dgst)
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
func (s *store) repair(size int64, err error) bool {
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

// writeBytes stores small content. Unlike write, it does not pin it.
func (s *store) writeBytes(desc ocispec.Descriptor, data []byte) error {
	release, err := s.write(desc, bytes.NewReader(data))
	if errors.Is(err, errTryAgain) {
		release, err = s.write(desc, bytes.NewReader(data))
	}
	if err != nil {
		return err
	}
	release()
	return nil
}

// ingest writes to a temporary file and renames it after the content is verified. It replaces an
// existing file, which is missing in the index, corrupt, or the same.
func (s *store) ingest(want digest.Digest, from io.Reader,
	verify func() (ocispec.Descriptor, error),
) (desc ocispec.Descriptor, err error) {
	pattern := "file_*"
	if want != "" {
		pattern = want.Encoded() + "_*"
	}
	file, err := s.create(filepath.Join(s.root, ingestDir), pattern)
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

func (s *store) pin(dgst digest.Digest) (*stored, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob, ok := s.blobs.Get(dgst)
	if !ok {
		return nil, false
	}
	blob.pins++
	if now := time.Now(); now.Sub(blob.touched) > touchInterval {
		blob.touched = now
		_ = os.Chtimes(s.path(dgst), now, now) // only the order after a restart depends on it
	}
	return blob, true
}

func (s *store) unpin(blob *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob.pins--
	s.evict()
}

// drop removes a corrupt blob, unless another goroutine has already replaced it.
func (s *store) drop(dgst digest.Digest, blob *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current, ok := s.blobs.Peek(dgst); ok && current == blob {
		s.blobs.Remove(dgst)
	}
}

// evict keeps the store within its limits. The caller holds mu.
func (s *store) evict() { s.evictTo(max(0, s.maxBytes-s.reserved)) }

// evictTo evicts the least recently used content, except pinned content, until the store has at
// most maxBytes bytes. The caller holds mu.
func (s *store) evictTo(maxBytes int64) {
	if s.bytes <= maxBytes && s.blobs.Len() <= maxStored {
		return
	}
	for _, dgst := range s.blobs.Keys() {
		blob, _ := s.blobs.Peek(dgst)
		if blob.pins > 0 {
			continue
		}
		s.blobs.Remove(dgst)
		if s.bytes <= maxBytes && s.blobs.Len() <= maxStored {
			return
		}
	}
}

// removed deletes the file of a blob whose entry is removed, by the store or by the LRU's limit on
// entries. The caller holds mu.
func (s *store) removed(dgst digest.Digest, blob *stored) {
	s.bytes -= blob.size
	_ = os.Remove(s.path(dgst)) // the file may be deleted already
}

func (s *store) path(dgst digest.Digest) string {
	algorithm, encoded, _ := strings.Cut(dgst.String(), ":")
	return filepath.Join(s.root, ocispec.ImageBlobsDir, algorithm, encoded)
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
