// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"
)

// fill creates empty programs and folders in the cache.
func fill(t *testing.T, opts Options, except ...string) {
	t.Helper()
	opts, err := opts.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEnsurer(opts)
	if err != nil {
		t.Fatal(err)
	}
	skip := strings.Join(except, " ")
	for _, p := range e.programs {
		if strings.Contains(skip, p.name) {
			continue
		}
		if err := os.WriteFile(e.cached(p), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range e.folders {
		if err := os.Mkdir(e.cachedFolder(f), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEnsureRunsNoCommandWithFullCache(t *testing.T) {
	cache := t.TempDir()
	fill(t, Options{CacheDir: cache})
	t.Setenv("PATH", "")
	var progress bytes.Buffer
	set, err := Ensure(t.Context(), Options{CacheDir: cache, Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs() {
		if !strings.HasPrefix(set.Path(p.name), cache) || !strings.HasPrefix(set.Version(p.name), "v") {
			t.Errorf("%s is %q of the version %q", p.name, set.Path(p.name), set.Version(p.name))
		}
	}
	if progress.Len() > 0 {
		t.Errorf("progress without anything to do: %s", progress.String())
	}
}

func TestEnsureBuildsOnlyRequestedPrograms(t *testing.T) {
	cache := t.TempDir()
	fill(t, Options{CacheDir: cache, Programs: []string{Etcd, Registry}})
	t.Setenv("PATH", "")
	set, err := Ensure(t.Context(), Options{CacheDir: cache, Programs: []string{Registry, Etcd}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(set.Names(), " "); got != "etcd registry" || set.Path(Kwok) != "" || set.KwokStages != "" {
		t.Errorf("got %s, kwok %q, its stages %q", got, set.Path(Kwok), set.KwokStages)
	}
	if _, err := os.Stat(set.CoreCRDs); err != nil {
		t.Error(err)
	}
	_, err = Ensure(t.Context(), Options{CacheDir: cache, Programs: []string{"cubectl"}})
	if err == nil || !strings.Contains(err.Error(), `no program "cubectl"`) {
		t.Errorf("got %v", err)
	}
}

func TestEnsureErrorNamesMissingPrograms(t *testing.T) {
	cache := t.TempDir()
	fill(t, Options{CacheDir: cache}, Kwok)
	t.Setenv("PATH", "")
	_, err := Ensure(t.Context(), Options{CacheDir: cache, NoDownload: true})
	if err == nil || !strings.Contains(err.Error(), "make kwok") ||
		!strings.Contains(err.Error(), "go command is needed") {
		t.Errorf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*.tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

func TestEnsureUsesAssets(t *testing.T) {
	t.Parallel()
	cache, assets := t.TempDir(), t.TempDir()
	fill(t, Options{CacheDir: cache}, Etcd, KubeAPIServer, Kubectl)
	// setup-envtest does not provide kube-scheduler.
	for _, name := range []string{Etcd, KubeAPIServer, Kubectl, KubeScheduler} {
		if err := os.WriteFile(filepath.Join(assets, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Ensure(t.Context(), Options{CacheDir: cache, AssetsDir: assets, NoDownload: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Path(Etcd); got != filepath.Join(assets, Etcd) {
		t.Errorf("etcd is %q", got)
	}
	if got := set.Path(KubeScheduler); !strings.HasPrefix(got, cache) {
		t.Errorf("kube-scheduler is %q", got)
	}
}

func TestEnsureWaitsForAnotherProcess(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	other := flock.New(filepath.Join(cache, ".lock"))
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := writerFunc(func(line string) {
		if strings.Contains(line, "another process") {
			// The other process has finished, and nothing is missing.
			fill(t, Options{CacheDir: cache})
			if err := other.Unlock(); err != nil {
				cancel()
			}
		}
	})
	defer cancel()
	if _, err := Ensure(ctx, Options{CacheDir: cache, NoDownload: true, Progress: waiting}); err != nil {
		t.Error(err)
	}
}

type writerFunc func(string)

func (f writerFunc) Write(data []byte) (int, error) {
	f(string(data))
	return len(data), nil
}

func TestFetchVerified(t *testing.T) {
	t.Parallel()
	const content = "a program"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	mux := http.NewServeMux()
	serve := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	}
	serve("/good", content)
	serve("/good.sha256", sum+"\n")
	serve("/forged", content+"!")
	serve("/forged.sha256", sum)
	serve("/half.sha256", sum)
	server := httptest.NewServer(mux)
	defer server.Close()

	tests := []struct {
		path string
		want func(error) bool
	}{
		{"/good", func(err error) bool { return err == nil }},
		{"/forged", func(err error) bool { return err != nil && strings.Contains(err.Error(), "checksum") }},
		{"/half", func(err error) bool { return errors.Is(err, errNotPublished) }},
		{"/none", func(err error) bool { return errors.Is(err, errNotPublished) }},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		final := filepath.Join(dir, "program")
		err := fetchVerified(t.Context(), server.Client(), server.URL+tt.path, final)
		if !tt.want(err) {
			t.Errorf("%s: got %v", tt.path, err)
		}
		if isExecutable(final) != (err == nil) {
			t.Errorf("%s: the program exists: %t, error: %v", tt.path, isExecutable(final), err)
		}
		if entries, _ := os.ReadDir(dir); err != nil && len(entries) > 0 {
			t.Errorf("%s: files are left: %v", tt.path, entries)
		}
	}
}
