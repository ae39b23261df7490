// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

func describe(data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func newStore(t *testing.T, dir string, maxBytes int64) *Store {
	t.Helper()
	s, err := Open(dir, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Store) mustHave(t *testing.T, present bool, data []byte) {
	t.Helper()
	_, err := s.Read(describe(data).Digest, 1<<20)
	if present && err != nil || !present && !errors.Is(err, ocierr.ErrNotStored) {
		t.Errorf("content %.8q: %v, want present %t", data, err, present)
	}
}

// leftNothing fails the test if the store has temporary files.
func (s *Store) leftNothing(t *testing.T) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(s.root, ingestDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStoreEvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir, 250)
	a, b, c, d := bytes.Repeat([]byte("a"), 100), bytes.Repeat([]byte("b"), 100), bytes.Repeat([]byte("c"), 100),
		bytes.Repeat([]byte("d"), 100)
	for _, data := range [][]byte{a, b} {
		if err := s.WriteBytes(describe(data), data); err != nil {
			t.Fatal(err)
		}
	}
	s.mustHave(t, true, a)
	if err := s.WriteBytes(describe(c), c); err != nil {
		t.Fatal(err)
	}
	s.mustHave(t, false, b)
	s.mustHave(t, true, a)

	// After this read, a is the least recently used content, but it is pinned.
	s.mustHave(t, true, c)
	pinned, ok := s.pin(describe(a).Digest)
	if !ok {
		t.Fatal("a is gone")
	}
	s.mustHave(t, true, c)
	if err := s.WriteBytes(describe(d), d); err != nil {
		t.Fatal(err)
	}
	s.mustHave(t, true, a)
	s.unpin(pinned)
	if s.bytes > 250 {
		t.Errorf("store holds %d bytes, limit 250", s.bytes)
	}
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(files) != s.blobs.Len() {
		t.Errorf("%d files for %d entries, %v", len(files), s.blobs.Len(), err)
	}
}

func TestStoreKeepsPinnedContentOverTheLimit(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir(), 10)
	data := []byte("longer than the limit")
	release, err := s.Write(describe(data), bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s.mustHave(t, true, data)
	release()
	s.mustHave(t, false, data)
}

func TestStoreRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir, 1000)
	old, recent := bytes.Repeat([]byte("o"), 100), bytes.Repeat([]byte("r"), 100)
	for i, data := range [][]byte{recent, old} {
		if err := s.WriteBytes(describe(data), data); err != nil {
			t.Fatal(err)
		}
		used := time.Now().Add(-time.Duration(i+1) * 24 * time.Hour)
		if err := os.Chtimes(s.path(describe(data).Digest), used, used); err != nil {
			t.Fatal(err)
		}
	}
	half := filepath.Join(dir, ingestDir, "half-written")
	for _, name := range []string{half, filepath.Join(dir, "blobs", "sha256", "not-a-digest")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	again := newStore(t, dir, 150) // the smaller limit applies at once
	again.mustHave(t, true, recent)
	again.mustHave(t, false, old)
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the half-written file is still there: %v", err)
	}
}

func TestStorePrefix(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir(), 1000)
	data := []byte("content")
	if err := s.WriteBytes(describe(data), data); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int64]string{2: "co", 100: "content"} {
		if got, ok := s.Prefix(describe(data).Digest, n); !ok || string(got) != want {
			t.Errorf("%d bytes: %q, %t, want %q", n, got, ok, want)
		}
	}
	if got, ok := s.Prefix(describe([]byte("other")).Digest, 2); ok {
		t.Errorf("missing content: %q", got)
	}
}

func TestStoreRefusesWrongContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir, 1000)
	want := describe([]byte("right"))
	for _, data := range []string{"wrong", "righ", "right and more", ""} {
		if _, err := s.Write(want, bytes.NewReader([]byte(data))); !isMismatch(err) {
			t.Errorf("%q: error = %v, want a mismatch", data, err)
		}
	}
	s.leftNothing(t)
	s.mustHave(t, false, []byte("right"))
}

func TestStoreInUnwritableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, 1000); err == nil {
		t.Error("a file was taken for a directory")
	}
	dir := t.TempDir()
	s := newStore(t, dir, 1000)
	if err := os.RemoveAll(filepath.Join(dir, ingestDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, filepath.Join(dir, ingestDir)); err != nil {
		t.Fatal(err)
	}
	err := s.WriteBytes(describe([]byte("x")), []byte("x"))
	if !errors.Is(err, ocierr.ErrStore) || strings.Contains(err.Error(), dir) {
		t.Errorf("error = %v, want ErrStore without the path", err)
	}
}

// TestStoreConcurrentUse writes, reads and damages content from many goroutines. The store has room for some of the
// content only. Each read must return correct content, and the sizes in the store must be correct in the end.
func TestStoreConcurrentUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir, 5*1024)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 150 {
				data := bytes.Repeat([]byte{byte('a' + random.IntN(10))}, 1024)
				desc := describe(data)
				got, err := s.Read(desc.Digest, 1<<20)
				switch {
				case err == nil && !bytes.Equal(got, data):
					t.Error("wrong content was handed out")
				case errors.Is(err, ocierr.ErrNotStored):
					if err := s.WriteBytes(desc, data); err != nil {
						t.Error(err)
					}
				}
				if random.IntN(20) == 0 {
					_ = os.WriteFile(s.path(desc.Digest), []byte("damaged"), 0o600) // the file may be deleted already
				}
			}
		})
	}
	wg.Wait()
	var total int64
	for _, dgst := range s.blobs.Keys() {
		blob, _ := s.blobs.Peek(dgst)
		total += blob.size
		if blob.pins != 0 {
			t.Errorf("%s is still pinned %d times", dgst, blob.pins)
		}
	}
	if total != s.bytes || s.bytes > s.maxBytes {
		t.Errorf("entries have %d bytes, the store counts %d, limit %d", total, s.bytes, s.maxBytes)
	}
}

func TestStoreIsAnOCILayout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newStore(t, dir, 1000)
	for _, name := range []string{"oci-layout", "index.json"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.HasPrefix(data, []byte("{")) {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
}

func BenchmarkStoreRead(b *testing.B) {
	s, err := Open(b.TempDir(), 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	desc := describe(data)
	if err := s.WriteBytes(desc, data); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(desc.Size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Read(desc.Digest, desc.Size); err != nil {
			b.Fatal(err)
		}
	}
}

// TestStoreEvictsByNumber checks that an eviction by the number of entries also deletes the file and updates the size.
func TestStoreEvictsByNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir, 1<<20)
	for _, text := range []string{"one", "three"} {
		if err := s.WriteBytes(describe([]byte(text)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	s.blobs.Resize(1)
	bytes := s.bytes
	s.mu.Unlock()
	if bytes != int64(len("three")) {
		t.Errorf("%d bytes are counted", bytes)
	}
	s = newStore(t, dir, 1<<20)
	s.mustHave(t, false, []byte("one"))
	s.mustHave(t, true, []byte("three"))
}

// TestStoreEvictsBeforeWriting checks that the store never has more bytes than its limit, including a running write.
func TestStoreEvictsBeforeWriting(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir(), 100)
	for n := range 4 {
		data := bytes.Repeat([]byte{byte(n)}, 25)
		if err := s.WriteBytes(describe(data), data); err != nil {
			t.Fatal(err)
		}
	}
	data := bytes.Repeat([]byte("x"), 50)
	from := iotest.ErrReader(errors.New("broke"))
	_, err := s.Write(describe(data), io.MultiReader(readerFunc(func([]byte) (int, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.bytes+s.reserved > 100 {
			t.Errorf("%d bytes are stored while %d are written", s.bytes, s.reserved)
		}
		return 0, io.EOF
	}), from))
	if err == nil || s.reserved != 0 {
		t.Errorf("%v; %d bytes are reserved still", err, s.reserved)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
