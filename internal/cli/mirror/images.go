// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// containerLists are the fields with containers, in pods and in all objects that have templates of pods.
var containerLists = []string{"containers", "initContainers", "ephemeralContainers"}

// Images returns the images of the containers in rendered manifests, sorted, each once. It does not find images that
// programs get by arguments, variables or fields of custom resources.
func Images(manifests io.Reader) ([]string, error) {
	found := map[string]bool{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(manifests))
	for n := 1; ; n++ {
		data, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return slices.Sorted(maps.Keys(found)), nil
		}
		if err != nil {
			return nil, err
		}
		var object any
		if err := yaml.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("document %d of the manifests is not YAML: %w", n, err)
		}
		addImages(object, found)
	}
}

// ImagesOf returns the images of the containers in objects, as Images does.
func ImagesOf(objects []*unstructured.Unstructured) []string {
	found := map[string]bool{}
	for _, object := range objects {
		addImages(object.Object, found)
	}
	return slices.Sorted(maps.Keys(found))
}

// addImages adds the images in a value and in the values below it.
func addImages(value any, found map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range containerLists {
			containers, _ := value[field].([]any)
			for _, container := range containers {
				fields, _ := container.(map[string]any)
				if image, _ := fields["image"].(string); image != "" {
					found[image] = true
				}
			}
		}
		for _, below := range value {
			addImages(below, found)
		}
	case []any:
		for _, below := range value {
			addImages(below, found)
		}
	}
}
