// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"
	"sigs.k8s.io/yaml"
)

// Media types of a chart in a registry, as Helm defines them.
const (
	chartConfigType = "application/vnd.cncf.helm.config.v1+json"
	ChartLayerType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// epoch is the time of all files in packaged charts, so that the same folder always has the same digest.
var epoch = time.Unix(1_700_000_000, 0).UTC()

// chartMetadata holds the fields of Chart.yaml that clients of a registry show: they become annotations of the
// manifest.
type chartMetadata struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

// Chart returns a chart to push. ChartDir, ChartArchive and ChartFiles make one.
type Chart func() (archive []byte, err error)

// ChartArchive returns a packaged chart (.tgz).
func ChartArchive(tgz []byte) Chart { return func() ([]byte, error) { return tgz, nil } }

// ChartDir returns the chart of a folder. All its regular files are packaged.
func ChartDir(dir string) Chart {
	return func() ([]byte, error) {
		meta, _, err := metadataOf(os.DirFS(dir), "Chart.yaml")
		if err != nil {
			return nil, err
		}
		return packageFS(os.DirFS(dir), meta.Name)
	}
}

// ChartFiles returns a chart of files, given as their contents by path, with a "Chart.yaml".
func ChartFiles(files map[string]string) Chart {
	return func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "helmop-chart-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		for name, content := range files {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return nil, err
			}
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				return nil, err
			}
		}
		return ChartDir(dir)()
	}
}

// PushChart stores a chart under repository:tag as Helm does, and returns the manifest's descriptor. It moves a tag
// that exists.
func (r *Registry) PushChart(ctx context.Context, repository, tag string, chart Chart) (ocispec.Descriptor, error) {
	archive, err := chart()
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("package the chart for %s:%s: %w", repository, tag, err)
	}
	meta, config, err := archiveMetadata(archive)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("read the chart for %s:%s: %w", repository, tag, err)
	}
	annotations := map[string]string{
		ocispec.AnnotationTitle:   meta.Name,
		ocispec.AnnotationVersion: meta.Version,
		ocispec.AnnotationCreated: epoch.Format(time.RFC3339),
	}
	if meta.Description != "" {
		annotations[ocispec.AnnotationDescription] = meta.Description
	}
	return r.PushRaw(ctx, repository, tag, Raw{
		ConfigType: chartConfigType, Config: config,
		Layers: []Layer{{MediaType: ChartLayerType, Data: archive}}, Annotations: annotations,
	})
}

// PushArtifact stores data as an artifact that is not a chart: one layer of the given media type and an empty
// configuration.
func (r *Registry) PushArtifact(ctx context.Context, repository, tag, mediaType string,
	data []byte,
) (ocispec.Descriptor, error) {
	return r.PushRaw(ctx, repository, tag, Raw{Layers: []Layer{{MediaType: mediaType, Data: data}}})
}

// Delete removes the manifest that a tag or digest refers to, and with it all its tags.
func (r *Registry) Delete(ctx context.Context, repository, reference string) error {
	repo, err := r.repository(repository)
	if err != nil {
		return err
	}
	target, err := repo.Resolve(ctx, reference)
	if err != nil {
		return err
	}
	return repo.Delete(ctx, target)
}

// repository opens a repository behind the front.
func (r *Registry) repository(name string) (*remote.Repository, error) {
	repo, err := remote.NewRepository(r.backend.url.Host + "/" + name)
	if err != nil {
		return nil, err
	}
	repo.Client, repo.PlainHTTP = r.client(), r.backend.url.Scheme == "http"
	return repo, nil
}

// metadataOf reads a Chart.yaml. It also returns the content as JSON, which is a chart's configuration in a registry.
func metadataOf(fsys fs.FS, name string) (chartMetadata, []byte, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return chartMetadata{}, nil, err
	}
	return parseMetadata(data)
}

func parseMetadata(data []byte) (chartMetadata, []byte, error) {
	var meta chartMetadata
	config, err := yaml.YAMLToJSON(data)
	if err != nil {
		return meta, nil, fmt.Errorf("parse Chart.yaml: %w", err)
	}
	if err := json.Unmarshal(config, &meta); err != nil {
		return meta, nil, fmt.Errorf("parse Chart.yaml: %w", err)
	}
	if meta.Name == "" || meta.Version == "" {
		return meta, nil, errors.New("the chart has no name or no version")
	}
	return meta, config, nil
}

// archiveMetadata finds <chart>/Chart.yaml in a packaged chart.
func archiveMetadata(archive []byte) (chartMetadata, []byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return chartMetadata{}, nil, err
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return chartMetadata{}, nil, errors.New("the archive has no Chart.yaml")
		}
		if err != nil {
			return chartMetadata{}, nil, err
		}
		if dir, file := path.Split(path.Clean(header.Name)); file != "Chart.yaml" || path.Dir(path.Clean(dir)) != "." {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(reader, 1<<20))
		if err != nil {
			return chartMetadata{}, nil, err
		}
		return parseMetadata(data)
	}
}

// packageFS returns a .tgz with all regular files below one folder, in a fixed order and with fixed times.
func packageFS(fsys fs.FS, name string) ([]byte, error) {
	return zipped(func(archive *tar.Writer) error {
		return fs.WalkDir(fsys, ".", func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			data, err := fs.ReadFile(fsys, file)
			if err != nil {
				return err
			}
			header := &tar.Header{Name: path.Join(name, file), Mode: 0o644, Size: int64(len(data)), ModTime: epoch}
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
			_, err = archive.Write(data)
			return err
		})
	})
}
