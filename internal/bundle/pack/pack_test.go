// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n"

// folder writes files into a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func chartFiles() map[string]string {
	return map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: cni\nversion: 1.2.3+build.4\ndescription: A network\nhome: " +
			"https://example.com\n",
		"values.yaml":           "a: b\n",
		"templates/one.yaml":    configMap,
		"charts/sub/skip.tmp":   "not packed",
		"charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 0.1.0\n",
		".helmignore":           "*.tmp\n",
	}
}

func mustPack(t *testing.T, path string, options Options) *Artifact {
	t.Helper()
	artifact, err := Pack(path, options)
	if err != nil {
		t.Fatal(err)
	}
	return artifact
}

func manifestOf(t *testing.T, artifact *Artifact) ocispec.Manifest {
	t.Helper()
	var manifest ocispec.Manifest
	if err := json.Unmarshal(artifact.Manifest.Content, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest
}

// unpacked returns the names and contents in a packed layer.
func unpacked(t *testing.T, layer Blob) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(layer.Content))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Uname != "" || header.ModTime.Unix() != 0 && !header.ModTime.IsZero() {
			t.Errorf("%s has the owner or the time of the packing: %+v", header.Name, header)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// TestEqualContentHasAnEqualDigest packs the same files, written in another order at another time with other modes, in
// each format.
func TestEqualContentHasAnEqualDigest(t *testing.T) {
	t.Parallel()
	manifests := map[string]string{"b.yaml": configMap, "a.yml": configMap, "c.json": "{}"}
	for _, format := range Formats {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			files := manifests
			if format == bundle.FormatHelmChart {
				files = chartFiles()
			}
			first, second := folder(t, files), folder(t, files)
			for name := range files {
				path := filepath.Join(second, filepath.FromSlash(name))
				if err := errors.Join(os.Chmod(path, 0o400), os.Chtimes(path, time.Unix(1, 0), time.Unix(2, 0))); err != nil {
					t.Fatal(err)
				}
			}
			options := Options{Format: format}
			one, two := mustPack(t, first, options), mustPack(t, second, options)
			if one.Manifest.Digest != two.Manifest.Digest {
				t.Errorf("%s and %s", one.Manifest.Digest, two.Manifest.Digest)
			}
			options.Created = time.Unix(1_700_000_000, 0)
			created := mustPack(t, first, options)
			if got := manifestOf(t, created).Annotations[ocispec.AnnotationCreated]; got != "2023-11-14T22:13:20Z" {
				t.Errorf("created %q", got)
			}
			if len(created.Blobs()) > 4 ||
				!slices.EqualFunc(created.Blobs(), one.Blobs(), func(a, b Blob) bool { return a.Digest == b.Digest }) {
				t.Error("the blobs depend on the time")
			}
		})
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	tree := map[string]string{"base/one.yaml": configMap, "kustomization.yaml": "resources: [base/one.yaml]\n",
		"notes.txt": "n", ".git/config": "g"}
	flat := map[string]string{"one.yaml": configMap, "two.json": "{}", "notes.txt": "n"}
	for name, test := range map[string]struct {
		files   map[string]string
		options Options
		want    ocispec.Manifest
		entries map[string]string
	}{
		"flux, guessed": {
			files: tree, entries: map[string]string{"base/one.yaml": configMap,
				"kustomization.yaml": "resources: [base/one.yaml]\n", "notes.txt": "n"},
			want: ocispec.Manifest{
				Config: ocispec.Descriptor{MediaType: "application/vnd.cncf.flux.config.v1+json"},
				Layers: []ocispec.Descriptor{{MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip"}},
			},
		},
		"plain": {
			files: flat, options: Options{Format: bundle.FormatPlain},
			entries: map[string]string{"manifests/one.yaml": configMap, "manifests/two.json": "{}"},
			want: ocispec.Manifest{
				Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig},
				Layers: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayerGzip}},
			},
		},
		"files": {
			files: flat, options: Options{Format: bundle.FormatFiles, Annotations: map[string]string{"a": "b"}},
			want: ocispec.Manifest{
				ArtifactType: filesArtifactType, Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeEmptyJSON},
				Layers: []ocispec.Descriptor{
					{MediaType: "application/yaml", Annotations: map[string]string{ocispec.AnnotationTitle: "one.yaml"}},
					{MediaType: "application/json", Annotations: map[string]string{ocispec.AnnotationTitle: "two.json"}},
				},
				Annotations: map[string]string{"a": "b"},
			},
		},
		"a chart, guessed": {
			files: chartFiles(),
			entries: map[string]string{
				"cni/Chart.yaml": chartFiles()["Chart.yaml"], "cni/values.yaml": "a: b\n", "cni/templates/one.yaml": configMap,
				"cni/charts/sub/Chart.yaml": chartFiles()["charts/sub/Chart.yaml"], "cni/.helmignore": "*.tmp\n",
			},
			want: ocispec.Manifest{
				Config: ocispec.Descriptor{MediaType: "application/vnd.cncf.helm.config.v1+json"},
				Layers: []ocispec.Descriptor{{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip"}},
				Annotations: map[string]string{
					ocispec.AnnotationTitle: "cni", ocispec.AnnotationVersion: "1.2.3+build.4",
					ocispec.AnnotationDescription: "A network", ocispec.AnnotationURL: "https://example.com",
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			artifact := mustPack(t, folder(t, test.files), test.options)
			got := manifestOf(t, artifact)
			for _, blob := range append(artifact.Blobs(), artifact.Manifest) {
				if int64(len(blob.Content)) != blob.Size || blob.Digest.Validate() != nil {
					t.Errorf("descriptor %+v of %d bytes", blob.Descriptor, len(blob.Content))
				}
			}
			forget := func(d *ocispec.Descriptor) { d.Digest, d.Size = "", 0 }
			forget(&got.Config)
			for i := range got.Layers {
				forget(&got.Layers[i])
			}
			want := test.want
			want.SchemaVersion, want.MediaType = 2, ocispec.MediaTypeImageManifest
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if test.entries != nil {
				if diff := cmp.Diff(test.entries, unpacked(t, artifact.Layers[0])); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}

// TestPlainImage checks that the config names the unpacked layer, as the image specification requires.
func TestPlainImage(t *testing.T) {
	t.Parallel()
	artifact := mustPack(t, folder(t, map[string]string{"one.yaml": configMap}), Options{Format: bundle.FormatPlain})
	var image ocispec.Image
	if err := json.Unmarshal(artifact.Config.Content, &image); err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(artifact.Layers[0].Content))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	if len(image.RootFS.DiffIDs) != 1 || image.RootFS.DiffIDs[0] != newBlob("", data).Digest {
		t.Errorf("diff IDs %v", image.RootFS.DiffIDs)
	}
}

// TestFleet checks the name with which Fleet finds and verifies the content.
func TestFleet(t *testing.T) {
	t.Parallel()
	artifact := mustPack(t, folder(t, map[string]string{"a/one.yaml": configMap}), Options{Format: bundle.FormatFleet})
	layer := artifact.Layers[0]
	if id := layer.Annotations["id"]; len(id) != 63 || !strings.HasPrefix("s-"+layer.Digest.Encoded(), id) {
		t.Errorf("id %q of %s", id, layer.Digest)
	}
	want := `{"resources":[{"name":"a/one.yaml","content":` + string(mustJSON(t, configMap)) + `}]}`
	if got := string(layer.Content); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestPackKeepsAllFilesOfKustomizations checks that an artifact with a kustomization contains files of any kind, and
// that the kustomization can use them.
func TestPackKeepsAllFilesOfKustomizations(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"app/Kustomization": "resources: [base/one.yaml]\npatches: [{path: patch.txt}]\ngeneratorOptions: " +
			"{disableNameSuffixHash: true}\n" +
			"configMapGenerator: [{name: two, files: [app.bin]}]\n",
		"app/base/one.yaml": configMap, "app/patch.txt": configMap + "data: {patched: 'yes'}\n", "app/app.bin": "\xff\x00",
	}
	for _, format := range []bundle.Format{bundle.FormatFlux, bundle.FormatFiles, bundle.FormatFleet} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			packed := mustPack(t, folder(t, files), Options{Format: format})
			manifest := bundle.Manifest{ConfigMediaType: packed.Config.MediaType,
				ArtifactType: manifestOf(t, packed).ArtifactType}
			for _, layer := range packed.Layers {
				manifest.Layers = append(manifest.Layers,
					bundle.Layer{MediaType: layer.MediaType, Size: layer.Size, Title: layer.Annotations[ocispec.AnnotationTitle]})
			}
			loader := bundle.NewLoader(bundle.Limits{}, sandbox.InProcess(bundle.Tasks()))
			made, err := loader.Chart(t.Context(),
				bundle.Source{Manifest: manifest, Digest: packed.Manifest.Digest.String(), Name: "demo",
					ReadLayer: func(_ context.Context, i int) ([]byte, error) { return packed.Layers[i].Content, nil }})
			if err != nil {
				t.Fatal(err)
			}
			var all string
			for _, template := range made.Templates {
				all += string(template.Data)
			}
			if len(made.Templates) != 2 || !strings.Contains(all, "patched:") || !strings.Contains(all, "app.bin: /wA=") {
				t.Errorf("%s", all)
			}
		})
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestChartArchive checks that an archive is used unchanged, so that its provenance file stays valid.
func TestChartArchive(t *testing.T) {
	t.Parallel()
	packed := mustPack(t, folder(t, chartFiles()), Options{}).Layers[0]
	path := filepath.Join(t.TempDir(), "cni-1.2.3.tgz")
	if err := os.WriteFile(path, packed.Content, 0o600); err != nil {
		t.Fatal(err)
	}
	artifact := mustPack(t, path, Options{})
	if artifact.Layers[0].Digest != packed.Digest || artifact.Name != "cni" || artifact.Version != "1.2.3+build.4" {
		t.Errorf("%s of %s %s", artifact.Layers[0].Digest, artifact.Name, artifact.Version)
	}
	meta, err := bundle.ReadMetadata(artifact.Layers[0].Content)
	if err != nil || meta.Name != "cni" {
		t.Errorf("%v, %v", meta, err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	withLink := folder(t, map[string]string{"one.yaml": configMap})
	if err := os.Symlink("one.yaml", filepath.Join(withLink, "two.yaml")); err != nil {
		t.Fatal(err)
	}
	broken := chartFiles()
	broken["Chart.yaml"] = "apiVersion: v2\nname: cni\n"
	for name, test := range map[string]struct {
		path    string
		options Options
		want    error
		text    string
	}{
		"a link": {withLink, Options{}, errInvalid, "two.yaml is a link"},
		"no manifests": {folder(t, map[string]string{"a.txt": ""}), Options{Format: bundle.FormatFiles}, errInvalid,
			"has no files that end with"},
		"no manifests in flux": {folder(t, map[string]string{"a.txt": ""}), Options{}, errInvalid,
			"has no files that end with"},
		"a folder in plain": {folder(t, map[string]string{"a/b.yaml": configMap}), Options{Format: bundle.FormatPlain},
			errInvalid, "a/b.yaml is in a folder"},
		"a kustomization in plain": {folder(t,
			map[string]string{"a.yaml": configMap, "Kustomization": "resources: [a.yaml]"}), Options{Format: bundle.FormatPlain},
			errInvalid, "Kustomization is a kustomization"},
		"too large": {folder(t, map[string]string{"a.yaml": configMap, "b.yaml": configMap}), Options{MaxBytes: 70},
			errTooLarge, "b.yaml"},
		"a broken chart": {folder(t, broken), Options{}, errInvalid, "version"},
		"no archive":     {filepath.Join(folder(t, map[string]string{"a.tgz": "x"}), "a.tgz"), Options{}, errInvalid, "gzip"},
		"nothing there":  {filepath.Join(t.TempDir(), "none"), Options{}, os.ErrNotExist, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Pack(test.path, test.options); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v; want %v with %q", err, test.want, test.text)
			}
		})
	}
	if _, err := ParseFormat("zip"); err == nil || !strings.Contains(err.Error(), "HelmChart, Flux, Plain, Files, Fleet") {
		t.Errorf("%v", err)
	}
}
