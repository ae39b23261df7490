// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
)

// serverFields are the fields of the metadata that only the API server writes.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"resourceVersion", "selfLink", "uid",
}

// uidPlaceholder replaces the UID that a dry run assigns to a new object, for example in the labels of a Job.
const uidPlaceholder = "<uid>"

// content returns a copy of an object without its status and without the metadata of the API server.
func content(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	copied := runtime.DeepCopyJSON(object)
	uid := (&unstructured.Unstructured{Object: copied}).GetUID()
	delete(copied, "status")
	if metadata, ok := copied["metadata"].(map[string]any); ok {
		for _, field := range serverFields {
			delete(metadata, field)
		}
	}
	if uid != "" {
		replaceText(copied, string(uid), uidPlaceholder)
	}
	return copied
}

// replaceText replaces the texts in a value that are equal to the text from.
func replaceText(value any, from, to string) any {
	switch typed := value.(type) {
	case map[string]any:
		for key, inner := range typed {
			typed[key] = replaceText(inner, from, to)
		}
	case []any:
		for i, inner := range typed {
			typed[i] = replaceText(inner, from, to)
		}
	case string:
		if typed == from {
			return to
		}
	}
	return value
}

// overlay returns a copy of an object in which the fields of another object are set. Lists are replaced as a whole.
// Callers use overlay if the API server did not compute the result of an update. Fields that exist only in the cluster
// are not a difference.
func overlay(object, fields map[string]any) map[string]any {
	merged := maps.Clone(object)
	for key, value := range fields {
		inner, isMap := value.(map[string]any)
		if below, both := merged[key].(map[string]any); isMap && both {
			value = overlay(below, inner)
		}
		merged[key] = value
	}
	return merged
}

// Operation is one difference between two versions of an object.
type Operation struct {
	// Op is "add", "remove" or "replace", and Path is a JSON pointer (RFC 6901).
	Op   string `json:"op"`
	Path string `json:"path"`
	// From is the value in the cluster, and To is the new value.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
}

// operations appends the differences between two values to found. nil means that a value is absent.
func operations(found []Operation, path []string, from, to any) []Operation {
	switch {
	case from == nil && to == nil:
		return found
	case from == nil:
		return append(found, Operation{Op: "add", Path: drift.FormatPointer(path), To: to})
	case to == nil:
		return append(found, Operation{Op: "remove", Path: drift.FormatPointer(path), From: from})
	}
	switch typed := from.(type) {
	case map[string]any:
		other, ok := to.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Collect(maps.Keys(typed))
		for key := range other {
			if _, both := typed[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			found = operations(found, append(slices.Clip(path), key), typed[key], other[key])
		}
		return found
	case []any:
		other, ok := to.([]any)
		if !ok {
			break
		}
		for i := range max(len(typed), len(other)) {
			found = operations(found, append(slices.Clip(path), strconv.Itoa(i)), at(typed, i), at(other, i))
		}
		return found
	}
	if reflect.DeepEqual(from, to) {
		return found
	}
	return append(found, Operation{Op: "replace", Path: drift.FormatPointer(path), From: from, To: to})
}

// at returns an element of a list; nil if the list is shorter.
func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}
