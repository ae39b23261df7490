// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// TestPushRaw stores artifacts that no tool writes, in a registry that validates them.
func TestPushRaw(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{})
	repo := clientRepository(t, r, "odd", owner(r))
	raw := Raw{
		ArtifactType: "application/vnd.example.thing", ConfigType: "application/vnd.example.config",
		Config: []byte(`{"a":1}`),
		Layers: []Layer{{MediaType: "application/vnd.one", Data: []byte("one")},
			{MediaType: "application/vnd.two", Data: []byte("two")}},
		Annotations: map[string]string{ocispec.AnnotationRevision: "main@1"},
	}
	pushed, err := r.PushRaw(t.Context(), "odd", "v1", raw)
	if err != nil {
		t.Fatal(err)
	}
	var got ocispec.Manifest
	desc, err := repo.Resolve(t.Context(), "v1")
	if err != nil || desc.Digest != pushed.Digest {
		t.Fatalf("resolved to %v, %v", desc, err)
	}
	fetch := func(desc ocispec.Descriptor) []byte {
		data, err := content.FetchAll(t.Context(), repo, desc)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := json.Unmarshal(fetch(desc), &got); err != nil {
		t.Fatal(err)
	}
	if got.ArtifactType != raw.ArtifactType || got.Config.MediaType != raw.ConfigType ||
		got.Annotations[ocispec.AnnotationRevision] != "main@1" ||
		len(got.Layers) != 2 || got.Layers[1].MediaType != "application/vnd.two" || string(fetch(got.Layers[1])) != "two" {
		t.Errorf("got %+v", got)
	}
	r.ResetCounts()
	read, err := r.Manifest(t.Context(), "odd", "v1")
	if err != nil || len(read.Layers) != 2 || read.Layers[0].Digest != got.Layers[0].Digest || r.Counts().Total() != 0 {
		t.Errorf("read %+v, %v, with %+v", read, err, r.Counts())
	}
	index, err := r.PushIndex(t.Context(), "odd", "index", pushed)
	if err != nil {
		t.Fatal(err)
	}
	if desc, err := repo.Resolve(t.Context(), "index"); err != nil || desc.Digest != index.Digest ||
		desc.MediaType != ocispec.MediaTypeImageIndex {
		t.Errorf("the index is %+v, %v", desc, err)
	}
	untagged, err := r.PushRaw(t.Context(), "odd", "", Raw{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Resolve(t.Context(), untagged.Digest.String()); err != nil {
		t.Error(err)
	}
}

// unzip lists the entries of an archive.
func unzip(t *testing.T, tgz []byte) (headers []tar.Header, size int64) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(tgz))
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers, size
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, reader)
		if err != nil {
			t.Fatal(err)
		}
		headers, size = append(headers, *header), size+n
	}
}

func TestArchiveDoesNotChangeEntries(t *testing.T) {
	t.Parallel()
	entries := []Entry{
		TextFile("demo/Chart.yaml", "name: demo"),
		TextFile("demo/../../escape", "x"),
		TextFile("/etc/absolute", "x"),
		{Header: tar.Header{Name: "demo/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
		{Header: tar.Header{Name: "demo/hard", Typeflag: tar.TypeLink, Linkname: "demo/Chart.yaml"}},
	}
	archive, err := Archive(entries...)
	if err != nil {
		t.Fatal(err)
	}
	headers, _ := unzip(t, archive)
	if len(headers) != len(entries) {
		t.Fatalf("%d entries of %d", len(headers), len(entries))
	}
	for i, want := range entries {
		if got := headers[i]; got.Name != want.Name || got.Typeflag != want.Typeflag || got.Linkname != want.Linkname ||
			got.Size != int64(len(want.Data)) {
			t.Errorf("got %+v, want %+v", got, want.Header)
		}
	}
}

func TestGzipBomb(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	bomb, err := GzipBomb("demo", "1.0.0", size)
	if err != nil {
		t.Fatal(err)
	}
	if _, unpacked := unzip(t, bomb); unpacked < size || len(bomb) > size/500 {
		t.Errorf("%d bytes unpack to %d", len(bomb), unpacked)
	}
	if meta, _, err := archiveMetadata(bomb); err != nil || meta.Name != "demo" {
		t.Errorf("the bomb is not the chart demo but %+v, %v", meta, err)
	}
}
