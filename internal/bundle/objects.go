// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ParseObjects returns the objects in the text of a rendered manifest. Lists are split into their objects. Errors are
// ErrInvalidChart.
func ParseObjects(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		content := map[string]any{}
		err := documents.Decode(&content)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrInvalidChart, err)
		case len(content) > 0:
			made, err := flat(&unstructured.Unstructured{Object: content})
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrInvalidChart, err)
			}
			objects = append(objects, made...)
		}
	}
}

// flat returns the objects of a list. For an object that is not a list, it returns the object. Items of a typed list
// may omit their kind.
func flat(object *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, nil
	}
	var objects []*unstructured.Unstructured
	items, _ := object.Object["items"].([]any)
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d of a %s is not an object", i, object.GetKind())
		}
		one := &unstructured.Unstructured{Object: fields}
		if one.GetKind() == "" && one.GetAPIVersion() == "" {
			one.SetAPIVersion(object.GetAPIVersion())
			one.SetKind(strings.TrimSuffix(object.GetKind(), "List"))
		}
		made, err := flat(one)
		if err != nil {
			return nil, err
		}
		objects = append(objects, made...)
	}
	return objects, nil
}

// ObjectName returns the kind with group, namespace and name of an object.
func ObjectName(object *unstructured.Unstructured) string {
	group, _, _ := strings.Cut(object.GetAPIVersion(), "/")
	if !strings.Contains(object.GetAPIVersion(), "/") {
		group = ""
	}
	kind := strings.TrimSuffix(object.GetKind()+"."+group, ".")
	return kind + " " + strings.TrimPrefix(
		object.GetNamespace()+"/"+cmp.Or(object.GetName(), object.GetGenerateName()),
		"/",
	)
}

// MergeValues merges values over the values in base, like Helm. Maps are merged, and other values are replaced. A null
// stays in the result and removes a value of the chart. MergeValues does not change its arguments.
func MergeValues(base, over map[string]any) map[string]any {
	merged := make(map[string]any, len(base)+len(over))
	maps.Copy(merged, base)
	for key, value := range over {
		before, isMap := base[key].(map[string]any)
		if after, ok := value.(map[string]any); ok && isMap {
			value = MergeValues(before, after)
		}
		merged[key] = value
	}
	return merged
}
