// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/kustomize"
)

// The formats do not define these types.
const (
	// filesArtifactType marks artifacts whose layers are files with Kubernetes objects. "oras push" accepts any type.
	filesArtifactType = "application/vnd.helmop.manifests.v1"
	yamlMediaType     = "application/yaml"
	jsonMediaType     = "application/json"
	otherMediaType    = "application/octet-stream"

	// fleetIDAnnotation holds the name under which Fleet finds the content.
	fleetIDAnnotation = "id"
)

// plainFolder is the folder in an image in which rukpak looks for objects.
const plainFolder = "manifests/"

func packFlux(path string, options Options) (*draft, error) {
	files, err := readTree(path, options.MaxBytes)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(files, func(f file) bool { return isManifest(f.name) || kustomize.IsKustomization(f.name) }) {
		return nil, invalid("%s has no files that end with .yaml, .yml or .json", path)
	}
	packed, _, err := archive(files, "")
	if err != nil {
		return nil, err
	}
	return &draft{
		config: newBlob(bundle.FluxConfigMediaType, []byte("{}")),
		layers: []Blob{newBlob(bundle.FluxLayerMediaType, packed)},
	}, nil
}

func packPlain(path string, options Options) (*draft, error) {
	files, err := readManifests(path, options.MaxBytes)
	if err != nil {
		return nil, err
	}
	if name, ok := kustomizationIn(files); ok {
		return nil, invalid(
			"%s is a kustomization, which this format does not support; choose another format, or build the kustomization first",
			name,
		)
	}
	if name, ok := inFolder(files); ok {
		return nil, invalid("%s is in a folder, which this format does not support; choose another format, or move the file",
			name)
	}
	packed, unpacked, err := archive(files, plainFolder)
	if err != nil {
		return nil, err
	}
	// The image is never run, but the specification requires a platform.
	image := ocispec.Image{
		Platform: ocispec.Platform{Architecture: "amd64", OS: "linux"},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(unpacked)}},
	}
	config, err := json.Marshal(image)
	if err != nil {
		return nil, err
	}
	return &draft{
		config: newBlob(ocispec.MediaTypeImageConfig, config),
		layers: []Blob{newBlob(ocispec.MediaTypeImageLayerGzip, packed)},
	}, nil
}

func packFiles(path string, options Options) (*draft, error) {
	files, err := readManifests(path, options.MaxBytes)
	if err != nil {
		return nil, err
	}
	made := &draft{artifactType: filesArtifactType, config: emptyConfig()}
	for _, f := range files {
		mediaType := yamlMediaType
		switch {
		case strings.HasSuffix(f.name, ".json"):
			mediaType = jsonMediaType
		case !isManifest(f.name) && !kustomize.IsKustomization(f.name):
			mediaType = otherMediaType
		}
		layer := newBlob(mediaType, f.content)
		layer.Annotations = map[string]string{ocispec.AnnotationTitle: f.name}
		made.layers = append(made.layers, layer)
	}
	return made, nil
}

// fleetManifest is Fleet's list of files.
type fleetManifest struct {
	Resources []fleetResource `json:"resources"`
}

type fleetResource struct {
	Name     string `json:"name"`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty"`
}

func packFleet(path string, options Options) (*draft, error) {
	files, err := readManifests(path, options.MaxBytes)
	if err != nil {
		return nil, err
	}
	var list fleetManifest
	for _, f := range files {
		one := fleetResource{Name: f.name, Content: string(f.content)}
		if !utf8.Valid(f.content) {
			one.Content, one.Encoding = base64.StdEncoding.EncodeToString(f.content), "base64"
		}
		list.Resources = append(list.Resources, one)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	layer := newBlob(bundle.FleetLayerMediaType, data)
	layer.Annotations = map[string]string{fleetIDAnnotation: fleetID(layer.Digest)}
	return &draft{artifactType: bundle.FleetArtifactType, config: emptyConfig(), layers: []Blob{layer}}, nil
}

// fleetID returns the name with which Fleet verifies the content: "s-" and the part of its SHA-256 that fits into a
// label.
func fleetID(content digest.Digest) string {
	const labelLength = 63
	return ("s-" + content.Encoded())[:labelLength]
}
