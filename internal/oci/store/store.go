// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// ingestDir holds temporary files. It is on the file system of the blobs, so a rename moves a file to the blobs.
	ingestDir = "ingest"
	maxStored = 100_000
	// touchInterval is the minimum time between two updates of a file's timestamp. After a restart, the timestamps give
	// the order of use.
	touchInterval = 10 * time.Minute
)

// ErrTryAgain means that a write failed and that the store removed the cause: it made room on a full disk, or restored
// its emptied directory.
var ErrTryAgain = errors.New("the store was repaired")

// Store is an OCI image layout with a size limit. A write goes to a temporary file, which is verified and renamed. A
// read verifies the content again. The least recently used content is evicted, except content that is pinned because it
// is being read.
//
// The store does not use the layout of the protocol library. That layout has no size limit, and leaves a temporary file
// behind if the verification fails.
type Store struct {
	root     string
	maxBytes int64
	// Create creates a temporary file. Tests replace it to simulate failures.
	Create func(dir, pattern string) (TempFile, error)

	mu    sync.Mutex
	blobs *lru.LRU[digest.Digest, *stored]
	bytes int64
	// reserved is the total size of the running writes, in bytes.
	reserved int64
}

type stored struct {
	size    int64
	pins    int
	touched time.Time
}

// TempFile has the methods of *os.File that a write needs.
type TempFile interface {
	io.WriteCloser
	Name() string
}

func createTemp(dir, pattern string) (TempFile, error) { return os.CreateTemp(dir, pattern) }

// Open opens or creates the layout in dir and registers the content of the layout.
func Open(dir string, maxBytes int64) (*Store, error) {
	s := &Store{root: dir, maxBytes: maxBytes, Create: createTemp}
	s.blobs, _ = lru.NewLRU(maxStored+1, s.removed) // It fails only if the size is not positive.
	// Remove temporary files first. They may have filled the disk.
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

func (s *Store) makeDirs() error {
	for _, dir := range []string{ocispec.ImageBlobsDir, ingestDir} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// writeLayout writes the two files of an OCI layout if they are missing. The index stays empty, because content is
// found only by its digest.
func (s *Store) writeLayout() error {
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

// scan registers the blobs of an earlier process, in the order of their use.
func (s *Store) scan() error {
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

// removeIngests removes the temporary files of an earlier process. No other process writes to the directory, because
// only one Client uses it.
func (s *Store) removeIngests() {
	dir := filepath.Join(s.root, ingestDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // an old file only takes space
	}
	for _, entry := range entries {
		_ = os.Remove(filepath.Join(dir, entry.Name())) // an old file only takes space
	}
}

// Read returns verified content of at most limit bytes. It drops corrupt content. Errors are ErrNotStored and
// ErrTooLarge.
func (s *Store) Read(dgst digest.Digest, limit int64) ([]byte, error) {
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
	_ = file.Close() // a close after reading cannot lose data
	if err != nil {
		s.drop(dgst, blob)
		return nil, ocierr.ErrNotStored
	}
	return data, nil
}

// Prefix returns the first bytes of content, at most n. It does not verify the content: only Read does. It returns
// false if the store does not have the content.
func (s *Store) Prefix(dgst digest.Digest, n int64) ([]byte, bool) {
	blob, ok := s.pin(dgst)
	if !ok {
		return nil, false
	}
	defer s.unpin(blob)
	file, err := os.Open(s.path(dgst))
	if err != nil {
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(file, n))
	_ = file.Close() // a close after reading cannot lose data
	return data, err == nil
}

// Size returns the size of content in bytes. It returns false if the store does not have the content.
func (s *Store) Size(dgst digest.Digest) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob, ok := s.blobs.Peek(dgst)
	if !ok {
		return 0, false
	}
	return blob.size, true
}

// Has reports whether the store has the content. It does not verify the content: only Read does.
func (s *Store) Has(dgst digest.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs.Contains(dgst)
}

func (s *Store) pin(dgst digest.Digest) (*stored, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob, ok := s.blobs.Get(dgst)
	if !ok {
		return nil, false
	}
	blob.pins++
	if now := time.Now(); now.Sub(blob.touched) > touchInterval {
		blob.touched = now
		_ = os.Chtimes(s.path(dgst), now, now) // a failure only affects the order after a restart
	}
	return blob, true
}

func (s *Store) unpin(blob *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob.pins--
	s.evict()
}

// drop removes a corrupt blob, unless another goroutine has already replaced it.
func (s *Store) drop(dgst digest.Digest, blob *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current, ok := s.blobs.Peek(dgst); ok && current == blob {
		s.blobs.Remove(dgst)
	}
}

// evict keeps the store within its limits. The caller holds mu.
func (s *Store) evict() { s.evictTo(max(0, s.maxBytes-s.reserved)) }

// evictTo evicts the least recently used content until the store has at most maxBytes bytes. It skips pinned content.
// The caller holds mu.
func (s *Store) evictTo(maxBytes int64) {
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

// removed deletes the file of a blob. It is called when the store, or the LRU's limit for entries, removes the entry of
// the blob. The caller holds mu.
func (s *Store) removed(dgst digest.Digest, blob *stored) {
	s.bytes -= blob.size
	_ = os.Remove(s.path(dgst)) // the file may be deleted already
}

func (s *Store) path(dgst digest.Digest) string {
	algorithm, encoded, _ := strings.Cut(dgst.String(), ":")
	return filepath.Join(s.root, ocispec.ImageBlobsDir, algorithm, encoded)
}
