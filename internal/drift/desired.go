// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// The fields of objects.
const (
	labelsField        = "labels"
	annotationsField   = "annotations"
	metadataField      = "metadata"
	statusField        = "status"
	secretDataField    = "data"
	secretStringsField = "stringData"
)

// serverFields are the fields of the metadata that only the API server writes. Exported objects contain some of them,
// and some manifests were made from exported objects.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"resourceVersion", "selfLink", "uid",
}

// newDesired returns a copy of an object of the manifest in the form that Helm sends to the API server: with its
// namespace, and with the labels and annotations of the release.
func newDesired(obj *unstructured.Unstructured, namespace string, release Release) (*unstructured.Unstructured, error) {
	// The conversion makes a copy: DeepCopy would panic on types that JSON does not have.
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
	child(metadata, labelsField)[inventory.ManagedByLabel] = inventory.ManagedByHelm
	annotations := child(metadata, annotationsField)
	annotations[inventory.HelmReleaseName] = release.Name
	annotations[inventory.HelmReleaseNamespace] = release.Namespace
	return desired, nil
}

// child returns the map at a key. It adds an empty map if there is none.
func child(parent map[string]any, key string) map[string]any {
	if found, ok := parent[key].(map[string]any); ok {
		return found
	}
	made := map[string]any{}
	parent[key] = made
	return made
}

// toCompare returns the fields of obj to compare with live. It omits ignored fields, and fields that the API server
// stores in another form.
func toCompare(obj, live *unstructured.Unstructured, ignored [][]string) map[string]any {
	desired := obj.DeepCopy().Object
	if isSecret(obj.GroupVersionKind()) {
		foldStringData(desired)
	}
	dropNulls(desired)
	for _, pointer := range ignored {
		takeOver(desired, live.Object, pointer)
	}
	return desired
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

// dropNulls removes keys with the value null. Charts render null for a field that is not set.
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

// takeOver copies the value at a pointer from live to desired, so that the field does not differ. If live does not have
// the value, takeOver removes it from desired. In a list of named elements, it uses the live element with the same name
// and not the one with the same index, because other clients add elements.
func takeOver(desired, live any, pointer []string) {
	if len(pointer) == 0 {
		return
	}
	token, rest := pointer[0], pointer[1:]
	switch typed := desired.(type) {
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

// takeOverField does the same as takeOver for a field of a map.
func takeOverField(desired, live map[string]any, token string, rest []string) {
	liveValue, inLive := live[token]
	desiredValue, inDesired := desired[token]
	if len(rest) == 0 {
		if inLive {
			desired[token] = runtime.DeepCopyJSONValue(liveValue)
		} else {
			delete(desired, token)
		}
		return
	}
	if !inDesired {
		liveMap, isMap := liveValue.(map[string]any)
		if !isMap || !has(liveMap, rest) {
			return
		}
		// Lists are compared as a whole, so this matters within lists.
		desiredValue = map[string]any{}
		desired[token] = desiredValue
	}
	takeOver(desiredValue, liveValue, rest)
	if left, isMap := desiredValue.(map[string]any); isMap && len(left) == 0 && !inLive {
		delete(desired, token)
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

// elementLike returns the live element that corresponds to an element of a list: the element with the same name. An
// element without a name corresponds to the element with the same index.
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

// nameOf returns the name of an element of a list, if it has one.
func nameOf(element any) (string, bool) {
	fields, _ := element.(map[string]any)
	name, ok := fields["name"].(string)
	return name, ok
}

// parseIndex parses the index of a list element in a JSON pointer.
func parseIndex(token string, length int) (int, bool) {
	if token == "" || len(token) > 1 && token[0] == '0' || token[0] < '0' || token[0] > '9' {
		return 0, false
	}
	index, err := strconv.Atoi(token)
	return index, err == nil && index < length
}
