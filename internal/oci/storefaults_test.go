// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/store"
)

// storedFiles returns the number and the total size of the blobs and the temporary files in a store.
func storedFiles(t *testing.T, dir string) (number int, bytes int64) {
	t.Helper()
	for _, pattern := range []string{"blobs/*/*", "ingest/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if info, err := os.Stat(path); err == nil {
				number, bytes = number+1, bytes+info.Size()
			}
		}
	}
	return number, bytes
}

// fullFile is a file on a disk that is full after a number of bytes.
type fullFile struct {
	store.TempFile
	t        *testing.T
	dir      string
	capacity int64
}

func (f *fullFile) Write(p []byte) (int, error) {
	if _, bytes := storedFiles(f.t, f.dir); bytes+int64(len(p)) > f.capacity {
		return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.TempFile.Write(p)
}

func TestPullEvictsOnFullDisk(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c := newClient(t)
	create := c.store.Create
	c.store.Create = func(dir, pattern string) (store.TempFile, error) {
		file, err := create(dir, pattern)
		return &fullFile{TempFile: file, t: t, dir: c.opts.Dir, capacity: 1500}, err
	}
	for i := range 5 {
		layer := bytes.Repeat([]byte{byte('a' + i)}, 700)
		dgst := r.push(fmt.Sprint(i), "1.0.0", layer)
		if got, err := fetchLayer(t, c, r, dgst); err != nil || !bytes.Equal(got, layer) {
			t.Fatalf("layer %d: %d bytes, %v", i, len(got), err)
		}
	}
	if _, bytes := storedFiles(t, c.opts.Dir); bytes == 0 || bytes > 1500 {
		t.Errorf("the store has %d bytes on a disk of 1500", bytes)
	}
	if left, err := filepath.Glob(filepath.Join(c.opts.Dir, "ingest", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestStoreRestoresEmptiedDirectory checks that a store works again after its directory was emptied. A person may empty
// an emptyDir, or its node may lose the disk.
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
		waitForFile(t, filepath.Join(c.opts.Dir, "ingest"))
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
