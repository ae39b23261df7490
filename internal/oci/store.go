/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

const (
	// ingestDir holds files while they are written, on the same file system as
	// the blobs so that they can be renamed.
	ingestDir = "ingest"
	// maxStored bounds the number of blobs, whatever their size.
	maxStored = 100_000
	// staleIngest is the age at which a half-written file of a killed process is
	// removed; no pull lasts that long.
	staleIngest = time.Hour
	// touchEvery is how exactly the order of use outlives a restart.
	touchEvery = 10 * time.Minute
)

// errNotStored says that the store does not have the content, or had it in a
// state that made it drop it.
var errNotStored = errors.New("not in the store")

// store is an OCI image layout with a size limit: written by temporary file,
// check and rename, checked again on read, and evicted by age of last use, but
// for files being read, which are pinned. The protocol library's own layout
// storage is not used: it has no limit and leaves its temporary file behind
// when a check fails.
type store struct {
	root     string
	maxBytes int64

	mu    sync.Mutex
	blobs *lru.LRU[digest.Digest, *stored]
	bytes int64
}

type stored struct {
	size    int64
	pins    int
	touched time.Time
}

// openStore opens or makes the layout in dir and takes in what is there.
func openStore(dir string, maxBytes int64) (*store, error) {
	blobs, err := lru.NewLRU[digest.Digest, *stored](maxStored+1, nil)
	if err != nil {
		return nil, err
	}
	s := &store{root: dir, maxBytes: maxBytes, blobs: blobs}
	if err := s.initLayout(); err != nil {
		return nil, err
	}
	if err := s.scan(time.Now()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict()
	return s, nil
}

// initLayout writes the two files that make a directory an OCI layout. The
// index stays empty: content is found by digest only.
func (s *store) initLayout() error {
	for _, dir := range []string{ocispec.ImageBlobsDir, ingestDir} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{
		ocispec.ImageLayoutFile: `{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`,
		ocispec.ImageIndexFile:  `{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[]}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// scan takes in the blobs of an earlier process, least recently used first, and
// removes what it left half-written.
func (s *store) scan(now time.Time) error {
	type found struct {
		digest digest.Digest
		size   int64
		used   time.Time
	}
	var all []found
	err := filepath.WalkDir(filepath.Join(s.root, ocispec.ImageBlobsDir), func(path string, entry fs.DirEntry, err error) error {
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
	s.removeStaleIngests(now)
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *store) removeStaleIngests(now time.Time) {
	dir := filepath.Join(s.root, ingestDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // costs space only
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && now.Sub(info.ModTime()) > staleIngest {
			_ = os.Remove(filepath.Join(dir, entry.Name())) // costs space only
		}
	}
}

// read returns content of at most limit bytes, checked against its digest.
// Content that fails the check is dropped. Errors are errNotStored and
// ErrTooLarge.
func (s *store) read(dgst digest.Digest, limit int64) ([]byte, error) {
	blob, ok := s.pin(dgst)
	if !ok {
		return nil, errNotStored
	}
	defer s.unpin(blob)
	if blob.size > limit {
		return nil, &Error{Op: "read", Subject: dgst.String(), Kind: ErrTooLarge, Detail: fmt.Sprintf("%d bytes, limit %d", blob.size, limit)}
	}
	desc := ocispec.Descriptor{Digest: dgst, Size: blob.size}
	file, err := os.Open(s.path(dgst))
	if err != nil {
		s.drop(dgst, blob)
		return nil, errNotStored
	}
	data, err := content.ReadAll(file, desc)
	_ = file.Close() // it was only read
	if err != nil {
		s.drop(dgst, blob)
		return nil, errNotStored
	}
	return data, nil
}

// write stores content after checking its size and digest, and pins it so that
// it is not evicted before it is read. Errors of the reader and of the check are
// returned as they are, others as ErrStore.
func (s *store) write(desc ocispec.Descriptor, from io.Reader) (release func(), err error) {
	source := &sourceReader{from: from}
	if err := s.ingest(desc, source); err != nil {
		if source.err != nil || isMismatch(err) {
			return nil, err
		}
		detail := "cannot write"
		var path *fs.PathError
		if errors.As(err, &path) {
			detail += ": " + path.Err.Error()
		}
		return nil, &Error{Op: "store", Subject: desc.Digest.String(), Kind: ErrStore, Detail: detail,
			Hint: "check the size and the rights of the cache directory"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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

// writeBytes stores a small content; unlike write it does not pin it.
func (s *store) writeBytes(desc ocispec.Descriptor, data []byte) error {
	release, err := s.write(desc, bytes.NewReader(data))
	if err != nil {
		return err
	}
	release()
	return nil
}

// ingest writes to a temporary file and renames it when the content is right.
// What is in its place is replaced: it was missing or broken, or is the same.
func (s *store) ingest(desc ocispec.Descriptor, from io.Reader) (err error) {
	target := s.path(desc.Digest)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Join(s.root, ingestDir), desc.Digest.Encoded()+"_*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close()           // may be closed already
			_ = os.Remove(file.Name()) // the first error says more
		}
	}()
	checked := content.NewVerifyReader(from, desc)
	if _, err := io.Copy(file, checked); err != nil {
		return err
	}
	if err := checked.Verify(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), target)
}

// isMismatch tells that content did not have the size or digest it should.
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
	if now := time.Now(); now.Sub(blob.touched) > touchEvery {
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

// drop forgets a blob that turned out broken, unless another goroutine has
// already replaced it.
func (s *store) drop(dgst digest.Digest, blob *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current, ok := s.blobs.Peek(dgst); ok && current == blob {
		s.remove(dgst, blob)
	}
}

// evict removes what was used longest ago until the store is within its
// limits, leaving out what is pinned. The caller holds mu.
func (s *store) evict() {
	if s.bytes <= s.maxBytes && s.blobs.Len() <= maxStored {
		return
	}
	for _, dgst := range s.blobs.Keys() {
		blob, _ := s.blobs.Peek(dgst)
		if blob.pins > 0 {
			continue
		}
		s.remove(dgst, blob)
		if s.bytes <= s.maxBytes && s.blobs.Len() <= maxStored {
			return
		}
	}
}

// remove deletes a blob and its entry. The caller holds mu.
func (s *store) remove(dgst digest.Digest, blob *stored) {
	s.blobs.Remove(dgst)
	s.bytes -= blob.size
	_ = os.Remove(s.path(dgst)) // gone already is as good
}

func (s *store) path(dgst digest.Digest) string {
	algorithm, encoded, _ := strings.Cut(dgst.String(), ":")
	return filepath.Join(s.root, ocispec.ImageBlobsDir, algorithm, encoded)
}

// sourceReader remembers the error of a reader, to tell a broken connection
// from a full disk.
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
