//go:build unix

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
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// The environment variable childTask makes this test program a child process with a task. childDir is the directory for
// the task.
const (
	childTask = "HELMOP_TEST_STORE_CHILD"
	childDir  = "HELMOP_TEST_STORE_DIR"
)

// TestStoreChild is the child process of tests that need one.
func TestStoreChild(t *testing.T) {
	dir := os.Getenv(childDir)
	switch os.Getenv(childTask) {
	case "":
		t.Skip("runs as a child of other tests only")
	case "write and hang":
		s := newStore(t, dir, 1<<20)
		if err := s.WriteBytes(describe([]byte("kept")), []byte("kept")); err != nil {
			t.Fatal(err)
		}
		half := bytes.Repeat([]byte("h"), 100_000)
		desc := describe(append(half, half...))
		_, err := s.Write(desc, io.MultiReader(bytes.NewReader(half), hangingReader{}))
		t.Fatalf("the write ended: %v", err)
	case "write too much":
		s := newStore(t, dir, 10<<20)
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("x"), 1<<20)
		err := s.WriteBytes(describe(data), data)
		if !errors.Is(err, ocierr.ErrStore) || !strings.Contains(fmt.Sprint(err), "file too large") {
			t.Errorf("error = %v, want ErrStore that says why", err)
		}
		s.leftNothing(t)
		if err := s.WriteBytes(describe(data[:1000]), data[:1000]); err != nil {
			t.Errorf("what fits is not stored either: %v", err)
		}
		s.mustHave(t, true, data[:1000])
	}
}

// hangingReader writes to the standard output when all content before it was read. Then it blocks until the process is
// killed.
type hangingReader struct{}

func (hangingReader) Read([]byte) (int, error) {
	fmt.Println("half is written")
	select {}
}

func storeChild(t *testing.T, task, dir string) *exec.Cmd {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStoreChild$", "-test.v")
	child.Env = append(os.Environ(), childTask+"="+task, childDir+"="+dir)
	return child
}

func TestStoreSurvivesKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := storeChild(t, "write and hang", dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for buffer := make([]byte, 1024); !strings.Contains(said.String(), "half is written"); {
		n, err := out.Read(buffer)
		said.Write(buffer[:n])
		if err != nil {
			t.Fatalf("the child ended early: %s", said.String())
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child ended well")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ingestDir, "*")); err != nil || len(left) != 1 {
		t.Fatalf("the child left %v, %v; want one half-written file", left, err)
	}

	s := newStore(t, dir, 1<<20)
	s.leftNothing(t)
	s.mustHave(t, true, []byte("kept"))
	if s.blobs.Len() != 1 {
		t.Errorf("%d blobs, want 1", s.blobs.Len())
	}
}

func TestStoreWithFileSizeLimit(t *testing.T) {
	t.Parallel()
	if out, err := storeChild(t, "write too much", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// fullFile is a file on a disk that is full after a number of bytes.
type fullFile struct {
	TempFile
	left int
}

func (f *fullFile) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n, _ := f.TempFile.Write(p[:f.left])
		f.left -= n
		return n, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	f.left -= len(p)
	return f.TempFile.Write(p)
}

// fillDisk simulates a disk with capacity bytes for the store.
func (s *Store) fillDisk(capacity int64) {
	s.Create = func(dir, pattern string) (TempFile, error) {
		s.mu.Lock()
		left := capacity - s.bytes
		s.mu.Unlock()
		file, err := createTemp(dir, pattern)
		return &fullFile{TempFile: file, left: int(left)}, err
	}
}

func TestStoreEvictsOnFullDisk(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir(), 1<<20) // the limit is larger than the disk
	s.fillDisk(250)
	a, b, c := bytes.Repeat([]byte("a"), 100), bytes.Repeat([]byte("b"), 100), bytes.Repeat([]byte("c"), 100)
	for _, data := range [][]byte{a, b, c} {
		if err := s.WriteBytes(describe(data), data); err != nil {
			t.Fatal(err)
		}
	}
	s.mustHave(t, false, a)
	s.mustHave(t, true, b)
	s.mustHave(t, true, c)
	s.leftNothing(t)

	tooLong := bytes.Repeat([]byte("d"), 300)
	err := s.WriteBytes(describe(tooLong), tooLong)
	if !errors.Is(err, ocierr.ErrStore) || !strings.Contains(err.Error(), "no space left on device") ||
		strings.Contains(err.Error(), s.root) {
		t.Errorf("error = %v, want ErrStore that says why, without the path", err)
	}
	s.leftNothing(t)
	s.fillDisk(1 << 20)
	if err := s.WriteBytes(describe(tooLong), tooLong); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestStoreDropsContentDamagedBetweenRuns checks that content is not returned if it was damaged while no process was
// running.
func TestStoreDropsContentDamagedBetweenRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := bytes.Repeat([]byte("content"), 1000)
	damages := map[string]func(path string) error{
		"flipped byte": func(p string) error {
			changed := slices.Clone(data)
			changed[len(changed)-1] ^= 1
			return os.WriteFile(p, changed, 0o600)
		},
		"truncated": func(p string) error { return os.Truncate(p, 100) },
		"emptied":   func(p string) error { return os.Truncate(p, 0) },
		"longer":    func(p string) error { return os.WriteFile(p, append(slices.Clone(data), 'x'), 0o600) },
		"deleted":   os.Remove,
	}
	for name, damage := range damages {
		s := newStore(t, dir, 1<<20)
		if err := s.WriteBytes(describe(data), data); err != nil {
			t.Fatal(err)
		}
		if err := damage(s.path(describe(data).Digest)); err != nil {
			t.Fatal(err)
		}
		again := newStore(t, dir, 1<<20)
		again.mustHave(t, false, data)
		if again.bytes != 0 || again.blobs.Len() != 0 {
			t.Errorf("%s: the store counts %d bytes in %d blobs", name, again.bytes, again.blobs.Len())
		}
		if _, err := os.Stat(s.path(describe(data).Digest)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is still there", name)
		}
	}
}

func TestStoreConcurrentWritesOfOneDigest(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir(), 1<<20)
	data := bytes.Repeat([]byte("x"), 100_000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			release, err := s.Write(describe(data), bytes.NewReader(data))
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			s.mustHave(t, true, data)
		})
	}
	wg.Wait()
	if s.bytes != int64(len(data)) || s.blobs.Len() != 1 {
		t.Errorf("the store counts %d bytes in %d blobs", s.bytes, s.blobs.Len())
	}
	s.leftNothing(t)
}

// TestStoreWritesOnlyToItsDirectory simulates a container with a read-only root and one writable directory. The
// directories that programs usually write to do not exist.
