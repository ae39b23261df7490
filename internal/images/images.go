// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package images

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

// In returns the images in rendered manifests, sorted and without duplicates: the images of containers and of image
// volumes, in pods and in all objects with pod templates, including custom resources. It does not find images in
// arguments, in environment variables or in other fields of custom resources.
func In(manifests io.Reader) ([]string, error) {
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
		add(object, found)
	}
}

// Of returns the images in objects, as In does.
func Of(objects []*unstructured.Unstructured) []string {
	found := map[string]bool{}
	for _, object := range objects {
		add(object.Object, found)
	}
	return slices.Sorted(maps.Keys(found))
}

// add adds the images in a value and in the values below it.
func add(value any, found map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range containerLists {
			containers, _ := value[field].([]any)
			for _, container := range containers {
				addField(container, found, "image")
			}
		}
		volumes, _ := value["volumes"].([]any)
		for _, volume := range volumes {
			addField(volume, found, "image", "reference")
		}
		for _, below := range value {
			add(below, found)
		}
	case []any:
		for _, below := range value {
			add(below, found)
		}
	}
}

// addField adds the image in a field of an object.
func addField(object any, found map[string]bool, path ...string) {
	fields, _ := object.(map[string]any)
	for _, field := range path[:len(path)-1] {
		fields, _ = fields[field].(map[string]any)
	}
	if image, _ := fields[path[len(path)-1]].(string); image != "" {
		found[image] = true
	}
}
