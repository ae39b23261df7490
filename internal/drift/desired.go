// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// These are how Helm marks the objects of a release.
const (
	managedByLabel     = "app.kubernetes.io/managed-by"
	managedByHelm      = "Helm"
	releaseNameKey     = "meta.helm.sh/release-name"
	releaseNamespace   = "meta.helm.sh/release-namespace"
	labelsField        = "labels"
	annotationsField   = "annotations"
	metadataField      = "metadata"
	statusField        = "status"
	secretDataField    = "data"
	secretStringsField = "stringData"
)

// serverFields of the metadata are the API server's own. Manifests that were made by exporting objects have some.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"resourceVersion", "selfLink", "uid",
}

// newDesired returns a copy of a manifest's object as Helm sends it to the API server: with its namespace and the
// labels and annotations of the release.
func newDesired(obj *unstructured.Unstructured, namespace string, release Release) (*unstructured.Unstructured, error) {
	// Not DeepCopy, which panics on types that JSON does not know.
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, errors.New("the manifest cannot be encoded as JSON")
	}
	desired := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &desired.Object); err != nil {
		return nil, errors.New("the manifest cannot be decoded from JSON")
	}
	delete(desired.Object, statusField)
	metadata := child(desired.Object, metadataField)
	for _, field := range serverFields {
		delete(metadata, field)
	}
	if namespace == "" {
		delete(metadata, "namespace")
	} else {
		metadata["namespace"] = namespace
	}
	child(metadata, labelsField)[managedByLabel] = managedByHelm
	annotations := child(metadata, annotationsField)
	annotations[releaseNameKey] = release.Name
	annotations[releaseNamespace] = release.Namespace
	return desired, nil
}

// child returns the map below a key; it adds an empty one if there is none.
func child(parent map[string]any, key string) map[string]any {
	if found, ok := parent[key].(map[string]any); ok {
		return found
	}
	made := map[string]any{}
	parent[key] = made
	return made
}

// toCompare returns the fields of desired that are compared with live: without ignored fields, and without fields that
// the API server stores in another form.
func toCompare(desired, live *unstructured.Unstructured, ignored [][]string) map[string]any {
	wanted := desired.DeepCopy().Object
	if isSecret(desired.GroupVersionKind()) {
		foldStringData(wanted)
	}
	dropNulls(wanted)
	for _, pointer := range ignored {
		takeOver(wanted, live.Object, pointer)
	}
	return wanted
}

// foldStringData moves a Secret's stringData into data, as the API server does.
func foldStringData(secret map[string]any) {
	texts, ok := secret[secretStringsField].(map[string]any)
	if !ok {
		return
	}
	data := child(secret, secretDataField)
	for key, value := range texts {
		if text, ok := value.(string); ok {
			data[key] = encode(text)
		}
	}
	delete(secret, secretStringsField)
}

// dropNulls removes the keys of maps that hold null, which is how charts do not set something.
func dropNulls(value any) {
	switch typed := value.(type) {
	case map[string]any:
		for key, inner := range typed {
			if inner == nil {
				delete(typed, key)
				continue
			}
			dropNulls(inner)
		}
	case []any:
		for _, inner := range typed {
			dropNulls(inner)
		}
	}
}

// takeOver copies the value at a pointer from live to wanted, also if it is absent, so that the field does not differ.
// In a list of named elements it uses the element of the same name, not of the same index, because others add elements.
func takeOver(wanted, live any, pointer []string) {
	if len(pointer) == 0 {
		return
	}
	token, rest := pointer[0], pointer[1:]
	switch typed := wanted.(type) {
	case map[string]any:
		liveMap, _ := live.(map[string]any)
		takeOverField(typed, liveMap, token, rest)
	case []any:
		index, ok := parseIndex(token, len(typed))
		if !ok {
			return
		}
		counterpart, found := elementLike(typed[index], live, index)
		switch {
		case len(rest) > 0:
			takeOver(typed[index], counterpart, rest)
		case found:
			typed[index] = runtime.DeepCopyJSONValue(counterpart)
		}
	}
}

// takeOverField is takeOver for a field of a map.
func takeOverField(wanted, live map[string]any, token string, rest []string) {
	liveValue, inLive := live[token]
	wantedValue, inWanted := wanted[token]
	if len(rest) == 0 {
		if inLive {
			wanted[token] = runtime.DeepCopyJSONValue(liveValue)
		} else {
			delete(wanted, token)
		}
		return
	}
	if !inWanted {
		liveMap, isMap := liveValue.(map[string]any)
		if !isMap || !has(liveMap, rest) {
			return
		}
		// Matters within lists, which are compared as a whole.
		wantedValue = map[string]any{}
		wanted[token] = wantedValue
	}
	takeOver(wantedValue, liveValue, rest)
	if left, isMap := wantedValue.(map[string]any); isMap && len(left) == 0 && !inLive {
		delete(wanted, token)
	}
}

// has reports whether nested maps have a field.
func has(value map[string]any, pointer []string) bool {
	inner, found := value[pointer[0]]
	if !found || len(pointer) == 1 {
		return found
	}
	innerMap, isMap := inner.(map[string]any)
	return isMap && has(innerMap, pointer[1:])
}

// elementLike returns live's element that corresponds to a list's element: that of the same name, or else of the index.
func elementLike(element, live any, index int) (any, bool) {
	list, _ := live.([]any)
	if name, ok := nameOf(element); ok {
		for _, candidate := range list {
			if other, ok := nameOf(candidate); ok && other == name {
				return candidate, true
			}
		}
		return nil, false
	}
	if index < len(list) {
		return list[index], true
	}
	return nil, false
}

// nameOf returns the name of a list's element, if it has one.
func nameOf(element any) (string, bool) {
	fields, _ := element.(map[string]any)
	name, ok := fields["name"].(string)
	return name, ok
}

// parseIndex reads a list's index as JSON pointers write it.
func parseIndex(token string, length int) (int, bool) {
	if token == "" || len(token) > 1 && token[0] == '0' || token[0] < '0' || token[0] > '9' {
		return 0, false
	}
	index, err := strconv.Atoi(token)
	return index, err == nil && index < length
}
