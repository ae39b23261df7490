// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const testReference = "registry.example/team/manager:v1.2.3"

// testSpec returns a spec with two platforms whose binaries are short texts.
func testSpec(t *testing.T) imageSpec {
	t.Helper()
	dir := t.TempDir()
	spec := imageSpec{
		reference: testReference,
		created:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		labels:    map[string]string{ocispec.AnnotationVersion: "v1.2.3"},
		caBundle:  []byte("certificates"),
	}
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(dir, arch)
		if err := os.WriteFile(path, []byte("binary for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		spec.binaries = append(spec.binaries,
			platformBinary{platform: ocispec.Platform{OS: "linux", Architecture: arch}, path: path})
	}
	return spec
}

// readBlob reads a blob and checks it against its descriptor.
func readBlob(t *testing.T, layout string, desc ocispec.Descriptor) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(layout, "blobs", desc.Digest.Algorithm().String(), desc.Digest.Encoded()))
	if err != nil {
		t.Fatal(err)
	}
	if got := digest.FromBytes(data); got != desc.Digest || int64(len(data)) != desc.Size {
		t.Fatalf("blob %s has digest %s and %d bytes, want %d", desc.Digest, got, len(data), desc.Size)
	}
	return data
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var document T
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

func TestLayoutHasImageForEachPlatform(t *testing.T) {
	t.Parallel()
	layout := filepath.Join(t.TempDir(), "layout")
	want, err := writeLayout(t.Context(), layout, testSpec(t))
	if err != nil {
		t.Fatal(err)
	}

	version, err := os.ReadFile(filepath.Join(layout, ocispec.ImageLayoutFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := decode[ocispec.ImageLayout](t, version).Version; got != ocispec.ImageLayoutVersion {
		t.Errorf("layout version %q", got)
	}
	data, err := os.ReadFile(filepath.Join(layout, ocispec.ImageIndexFile))
	if err != nil {
		t.Fatal(err)
	}
	top := decode[ocispec.Index](t, data)
	if len(top.Manifests) != 1 || top.Manifests[0].Digest != want.Digest {
		t.Fatalf("index.json names %v, want the index %s alone", top.Manifests, want.Digest)
	}
	if got := top.Manifests[0].Annotations[ocispec.AnnotationRefName]; got != "v1.2.3" {
		t.Errorf("reference name %q, want the tag", got)
	}
	index := decode[ocispec.Index](t, readBlob(t, layout, top.Manifests[0]))
	if len(index.Manifests) != 2 {
		t.Fatalf("the index holds %d images, want 2", len(index.Manifests))
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if p := index.Manifests[i].Platform; p == nil || p.OS != "linux" || p.Architecture != arch {
			t.Errorf("image %d is for %v, want linux/%s", i, p, arch)
			continue
		}
		checkImage(t, layout, index.Manifests[i], arch)
	}
}

// checkImage checks configuration, layer and files of one platform's image.
func checkImage(t *testing.T, layout string, desc ocispec.Descriptor, arch string) {
	t.Helper()
	manifest := decode[ocispec.Manifest](t, readBlob(t, layout, desc))
	config := decode[ocispec.Image](t, readBlob(t, layout, manifest.Config))
	if config.Architecture != arch || config.OS != "linux" {
		t.Errorf("configuration is for %s/%s, want linux/%s", config.OS, config.Architecture, arch)
	}
	if config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 1 ||
		config.Config.Entrypoint[0] != "/manager" {
		t.Errorf("user %q, entrypoint %q", config.Config.User, config.Config.Entrypoint)
	}
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
		t.Fatalf("%d layers, %d diff IDs, want 1 and 1", len(manifest.Layers), len(config.RootFS.DiffIDs))
	}
	zipped, err := gzip.NewReader(bytes.NewReader(readBlob(t, layout, manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zipped)
	if err != nil {
		t.Fatal(err)
	}
	if got := digest.FromBytes(plain); got != config.RootFS.DiffIDs[0] {
		t.Errorf("diff ID %s, want %s", config.RootFS.DiffIDs[0], got)
	}
	files := readTar(t, plain)
	for name, want := range map[string]string{"manager": "binary for " + arch,
		"etc/ssl/certs/ca-certificates.crt": "certificates"} {
		if got := files[name].text; got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(files["etc/passwd"].text, "nonroot:x:65532:65532:") {
		t.Errorf("etc/passwd lacks the user: %q", files["etc/passwd"].text)
	}
	for name, want := range map[string]int64{"manager": 0o755, "tmp/": 0o1777, "var/cache/helmop/": 0o700} {
		if got := files[name].header.Mode; got != want {
			t.Errorf("mode of %s is %o, want %o", name, got, want)
		}
	}
	if got := files["var/cache/helmop/"].header.Uid; got != nonroot {
		t.Errorf("var/cache/helmop/ belongs to %d", got)
	}
}

type tarFile struct {
	header tar.Header
	text   string
}

func readTar(t *testing.T, data []byte) map[string]tarFile {
	t.Helper()
	files := map[string]tarFile{}
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = tarFile{header: *header, text: string(text)}
	}
}

func TestArchiveIsReproducible(t *testing.T) {
	t.Parallel()
	spec := testSpec(t)
	var archives [2][]byte
	for i := range archives {
		dir := t.TempDir()
		if _, err := writeLayout(t.Context(), filepath.Join(dir, "layout"), spec); err != nil {
			t.Fatal(err)
		}
		if err := archiveLayout(filepath.Join(dir, "layout"), filepath.Join(dir, "image.tar")); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "image.tar"))
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = data
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same input differ")
	}
	files := readTar(t, archives[0])
	// One index, and a manifest, a configuration and a layer for each platform.
	if len(files) != 2+7 {
		t.Errorf("the archive holds %d files, want 9", len(files))
	}
}

func TestFlagErrorsNameTheFlag(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"no tag or name":   {[]string{"-reference", "manager"}, "-reference"},
		"foreign platform": {[]string{"-reference", testReference, "-platforms", "windows/amd64"}, "-platforms"},
		"no architecture":  {[]string{"-reference", testReference, "-platforms", "linux"}, "-platforms"},
		"variant":          {[]string{"-reference", testReference, "-platforms", "linux/arm/v7"}, "-platforms"},
		"not a time":       {[]string{"-reference", testReference, "-created", "yesterday"}, "-created"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(t.Context(), append(tc.args, "-output", t.TempDir()), io.Discard); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one that names %s", err, tc.want)
			}
		})
	}
}

func TestPushSendsEveryBlobAndTags(t *testing.T) {
	t.Parallel()
	fake := &fakeRegistry{stored: map[string]bool{}}
	server := httptest.NewServer(fake)
	defer server.Close()

	layout := filepath.Join(t.TempDir(), "layout")
	index, err := writeLayout(t.Context(), layout, testSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	reference := strings.TrimPrefix(server.URL, "http://") + "/team/manager:v1.2.3"
	if err := push(t.Context(), layout, index, reference, true); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(layout, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		if name := "sha256:" + filepath.Base(blob); !fake.stored[name] {
			t.Errorf("%s was not pushed", name)
		}
	}
	if !fake.stored["v1.2.3"] {
		t.Error("the tag was not pushed")
	}
}

// fakeRegistry accepts every upload and records digests and tags.
type fakeRegistry struct {
	mu     sync.Mutex
	stored map[string]bool
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch r.Method {
	case http.MethodPost:
		w.Header().Set("Location", "/v2/team/manager/blobs/uploads/1")
		w.WriteHeader(http.StatusAccepted)
	case http.MethodPut:
		if d := r.URL.Query().Get("digest"); d != "" {
			name = d
		}
		data, err := io.ReadAll(r.Body)
		if err != nil || (strings.HasPrefix(name, "sha256:") && digest.FromBytes(data).String() != name) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.stored[name] = true
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(data).String())
		w.WriteHeader(http.StatusCreated)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
