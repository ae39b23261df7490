// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// differingPaths returns the paths of the desired fields whose values differ between the live and the corrected object.
// Each write also changes fields of the API server and of webhooks. These are not drift.
func differingPaths(live, corrected *unstructured.Unstructured, desired map[string]any) [][]string {
	found := diff(nil, nil, withoutServerFields(live), withoutServerFields(corrected), false)
	return slices.DeleteFunc(found, func(path []string) bool { return !isDesired(desired, path) })
}

// isDesired reports whether desired has a value at a path of the live object. The order of lists may differ, so it
// considers every element of a desired list.
func isDesired(desired any, path []string) bool {
	fields, isMap := desired.(map[string]any)
	if len(path) == 0 || !isMap {
		return true
	}
	inner, found := fields[path[0]]
	return found && isDesired(inner, path[1:])
}

// withoutServerFields returns the object without its status and without the metadata that only the API server writes.
func withoutServerFields(obj *unstructured.Unstructured) map[string]any {
	stripped := make(map[string]any, len(obj.Object))
	for key, value := range obj.Object {
		if key != statusField {
			stripped[key] = value
		}
	}
	metadata, _ := obj.Object[metadataField].(map[string]any)
	own := make(map[string]any, len(metadata))
	for key, value := range metadata {
		if !slices.Contains(serverFields, key) {
			own[key] = value
		}
	}
	stripped[metadataField] = own
	return stripped
}

// changedPaths returns the paths at which live does not have the value in desired.
func changedPaths(live, desired map[string]any) [][]string {
	return diff(nil, nil, live, desired, true)
}

// diff appends the paths at which two values differ to found. With partial, it ignores keys that only a has. Lists of
// different lengths differ as a whole. The value null in a map equals an absent key.
func diff(found [][]string, path []string, a, b any, partial bool) [][]string {
	switch typedA := a.(type) {
	case map[string]any:
		typedB, ok := b.(map[string]any)
		if !ok {
			break
		}
		for key, valueA := range typedA {
			valueB, inB := typedB[key]
			switch {
			case inB:
				found = diff(found, append(path, key), valueA, valueB, partial)
			case !partial && valueA != nil:
				found = append(found, append(slices.Clone(path), key))
			}
		}
		for key, valueB := range typedB {
			if _, inA := typedA[key]; !inA && valueB != nil {
				found = append(found, append(slices.Clone(path), key))
			}
		}
		return found
	case []any:
		typedB, ok := b.([]any)
		if !ok || len(typedA) != len(typedB) {
			break
		}
		for i := range typedA {
			found = diff(found, append(path, strconv.Itoa(i)), typedA[i], typedB[i], partial)
		}
		return found
	}
	if reflect.DeepEqual(a, b) {
		return found
	}
	return append(found, slices.Clone(path))
}

// name sets the paths of a difference, and the field manager that changed them.
func (d *Difference) name(live *unstructured.Unstructured, paths [][]string) {
	d.Manager = lastManager(live, paths)
	texts := make([]string, 0, len(paths))
	for _, path := range paths {
		texts = append(texts, printable(FormatPointer(path), maxPathLength))
	}
	slices.Sort(texts)
	d.More = max(0, len(texts)-maxPaths)
	d.Paths = slices.Clip(texts[:len(texts)-d.More])
}

// printable returns a text of bounded length without control characters.
func printable(text string, length int) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, truncate.Text(text, length))
}
