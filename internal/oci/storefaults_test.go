//go:build unix

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// The environment variable that makes this test program a child that does what
// its value says in the directory that the other one names.
const (
	childTask = "HELMOP_TEST_STORE_CHILD"
	childDir  = "HELMOP_TEST_STORE_DIR"
)

// TestStoreChild is the child process of the tests that need one.
func TestStoreChild(t *testing.T) {
	dir := os.Getenv(childDir)
	switch os.Getenv(childTask) {
	case "":
		t.Skip("runs as a child of other tests only")
	case "write and hang":
		s := newStore(t, dir, 1<<20)
		if err := s.writeBytes(describe([]byte("kept")), []byte("kept")); err != nil {
			t.Fatal(err)
		}
		half := bytes.Repeat([]byte("h"), 100_000)
		desc := describe(append(half, half...))
		_, err := s.write(desc, io.MultiReader(bytes.NewReader(half), hangingReader{}))
		t.Fatalf("the write ended: %v", err)
	case "write too much":
		s := newStore(t, dir, 10<<20)
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("x"), 1<<20)
		err := s.writeBytes(describe(data), data)
		if !errors.Is(err, ocierr.ErrStore) || !strings.Contains(fmt.Sprint(err), "file too large") {
			t.Errorf("error = %v, want ErrStore that says why", err)
		}
		s.leftNothing(t)
		if err := s.writeBytes(describe(data[:1000]), data[:1000]); err != nil {
			t.Errorf("what fits is not stored either: %v", err)
		}
		s.mustHave(t, true, data[:1000])
	}
}

// hangingReader says on the standard output that everything before it has been
// read, and waits to be killed.
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

// fullFile is a file on a disk that is full after some bytes.
type fullFile struct {
	tempFile
	left int
}

func (f *fullFile) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n, _ := f.tempFile.Write(p[:f.left])
		f.left -= n
		return n, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	f.left -= len(p)
	return f.tempFile.Write(p)
}

// fillDisk lets the store's disk hold capacity bytes in all.
func (s *store) fillDisk(capacity int64) {
	s.create = func(dir, pattern string) (tempFile, error) {
		s.mu.Lock()
		left := capacity - s.bytes
		s.mu.Unlock()
		file, err := createTemp(dir, pattern)
		return &fullFile{tempFile: file, left: int(left)}, err
	}
}

func TestStoreEvictsOnFullDisk(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir(), 1<<20) // more than the disk has
	s.fillDisk(250)
	a, b, c := bytes.Repeat([]byte("a"), 100), bytes.Repeat([]byte("b"), 100), bytes.Repeat([]byte("c"), 100)
	for _, data := range [][]byte{a, b, c} {
		if err := s.writeBytes(describe(data), data); err != nil {
			t.Fatal(err)
		}
	}
	s.mustHave(t, false, a)
	s.mustHave(t, true, b)
	s.mustHave(t, true, c)
	s.leftNothing(t)

	tooLong := bytes.Repeat([]byte("d"), 300)
	err := s.writeBytes(describe(tooLong), tooLong)
	if !errors.Is(err, ocierr.ErrStore) || !strings.Contains(err.Error(), "no space left on device") ||
		strings.Contains(err.Error(), s.root) {
		t.Errorf("error = %v, want ErrStore that says why, without the path", err)
	}
	s.leftNothing(t)
	s.fillDisk(1 << 20)
	if err := s.writeBytes(describe(tooLong), tooLong); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestPullEvictsOnFullDisk(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c := newClient(t)
	c.store.fillDisk(1500)
	for i := range 5 {
		layer := bytes.Repeat([]byte{byte('a' + i)}, 700)
		dgst := r.push(fmt.Sprint(i), "1.0.0", layer)
		if got, err := fetchLayer(t, c, r, dgst); err != nil || !bytes.Equal(got, layer) {
			t.Fatalf("layer %d: %d bytes, %v", i, len(got), err)
		}
	}
	if c.store.bytes > 1500 {
		t.Errorf("the store counts %d bytes on a disk of 1500", c.store.bytes)
	}
	c.store.leftNothing(t)
}

// An emptyDir may be emptied by hand, or lost with its node's disk.
func TestStoreRestoresEmptiedDirectory(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	dgst := r.push("1.0.0", "1.0.0", []byte("layer"))
	c := newClient(t)
	for _, gone := range [][]string{{}, {""}, {"blobs"}, {"blobs/sha256"}, {"blobs/sha256", "ingest"}} {
		for _, name := range gone {
			if err := os.RemoveAll(filepath.Join(c.opts.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := fetchLayer(t, c, r, dgst); err != nil || string(got) != "layer" {
			t.Fatalf("%q removed: layer %q, %v", gone, got, err)
		}
		r.wantRequests(map[string]int{"GET manifest": 1, "GET blob": 1})
	}
	for _, name := range []string{"oci-layout", "index.json", "blobs", "ingest"} {
		if _, err := os.Stat(filepath.Join(c.opts.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestPullRestoresEmptiedDirectory(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	layer := bytes.Repeat([]byte("x"), 100_000)
	dgst := r.push("1.0.0", "1.0.0", layer)
	c := newClient(t)
	content, err := c.Fetch(t.Context(), r.url(), dgst, r.access())
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	r.setIntercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if asked.Add(1) > 1 {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(layer)))
		_, _ = w.Write(layer[:len(layer)/2])
		_ = http.NewResponseController(w).Flush()
		waitForFile(t, filepath.Join(c.opts.Dir, ingestDir))
		if err := os.RemoveAll(c.opts.Dir); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(layer[len(layer)/2:])
		return true
	})
	got, err := content.ReadLayer(t.Context(), content.Layers[0])
	if err != nil || !bytes.Equal(got, layer) {
		t.Errorf("layer: %d bytes, %v", len(got), err)
	}
	if got := asked.Load(); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}

// waitForFile waits until there is a file in a directory.
func waitForFile(t *testing.T, dir string) {
	t.Helper()
	for t.Context().Err() == nil {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return
		}
	}
}

// Content that was damaged while no process was running must not be returned.
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
		if err := s.writeBytes(describe(data), data); err != nil {
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
			release, err := s.write(describe(data), bytes.NewReader(data))
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

// TestStoreWritesOnlyToItsDirectory runs without the places that programs like to
// write to, as in a container with a read-only root and one writable directory.
func TestStoreWritesOnlyToItsDirectory(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for _, name := range []string{"TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
		"DOCKER_CONFIG"} {
		t.Setenv(name, nowhere)
	}
	here := t.TempDir()
	t.Chdir(here)
	parent := t.TempDir()
	r := newRegistry(t)
	dgst := r.push("1.0.0", "1.0.0", bytes.Repeat([]byte("x"), 1<<20))
	c := newClient(t, func(o *Options) { o.Dir = filepath.Join(parent, "store") })
	if _, err := c.Resolve(t.Context(), r.source(Reference{Semver: "*"})); err != nil {
		t.Fatal(err)
	}
	if _, err := fetchLayer(t, c, r, dgst); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{here: 0, parent: 1} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			t.Errorf("%s holds %v, %v; want %d entries", dir, entries, err, want)
		}
	}
	if _, err := os.Stat(nowhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was made", nowhere)
	}
}
