// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"

	"helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientresource "k8s.io/cli-runtime/pkg/resource"
)

// written is a write of an object after which the object had the content of its manifest.
type written struct {
	// content is the digest of the UID of the object and of the manifest; 0 if there was no such write.
	content uint64
	// generation is metadata.generation after the write or, if the kind has no generations, the resource version.
	generation int64
}

// manifestsOf returns the objects as they are in the manifest. Each request replaces the object in an Info.
func manifestsOf(infos kube.ResourceList) map[*clientresource.Info]runtime.Object {
	manifests := make(map[*clientresource.Info]runtime.Object, len(infos))
	for _, info := range infos {
		manifests[info] = info.Object
	}
	return manifests
}

// contentDigest returns the digest of a manifest for the object with a UID; 0 if there is none.
func contentDigest(uid types.UID, manifest *unstructured.Unstructured) uint64 {
	data, err := json.Marshal(manifest.Object)
	if err != nil {
		return 0
	}
	var hash maphash.Hash
	hash.SetSeed(versionSeed)
	// Writes to a hash do not fail.
	_, _ = hash.WriteString(string(uid))
	_, _ = hash.Write(data)
	return hash.Sum64()
}

// contentOfWrite returns the digest of a manifest if the response to its write has its content. Admission and defaults
// of the API server may add fields to the response. The result is 0 if the response lacks a field or differs in a
// field: then a later change of the manifest cannot be computed without reading the object.
func contentOfWrite(manifest runtime.Object, response metav1.Object) uint64 {
	desired, ok := manifest.(*unstructured.Unstructured)
	observed, isSame := response.(*unstructured.Unstructured)
	if !ok || !isSame || !contains(storedContent(desired), observed.Object) {
		return 0
	}
	return contentDigest(response.GetUID(), desired)
}

// storedContent returns the fields of a manifest that the API server stores. It stores no status from a manifest, and
// the texts of a Secret as data.
func storedContent(manifest *unstructured.Unstructured) map[string]any {
	content := maps.Clone(manifest.Object)
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
		metadata = maps.Clone(metadata)
		delete(metadata, "creationTimestamp")
		content["metadata"] = metadata
	}
	texts, ok := content["stringData"].(map[string]any)
	if !ok || !isSecret(manifest) {
		return content
	}
	data := map[string]any{}
	if given, ok := content["data"].(map[string]any); ok {
		maps.Copy(data, given)
	}
	for key, text := range texts {
		if text, ok := text.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	delete(content, "stringData")
	content["data"] = data
	return content
}

func isSecret(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret")
}

// quantityFields are fields with quantities, which the API server stores in another format.
var quantityFields = map[string]bool{"limits": true, "requests": true}

// contains reports whether an observed value has all fields of a desired value. Lists must have the same length.
func contains(desired, observed any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		fields, ok := observed.(map[string]any)
		if !ok {
			return observed == nil && len(desired) == 0
		}
		for key, value := range desired {
			if !containsField(key, value, fields[key]) {
				return false
			}
		}
		return true
	case []any:
		items, ok := observed.([]any)
		if len(items) != len(desired) || !ok && observed != nil {
			return false
		}
		for i := range desired {
			if !contains(desired[i], items[i]) {
				return false
			}
		}
		return true
	default:
		return desired == observed
	}
}

// containsField is contains for the values of a field. A quantity may have another format.
func containsField(key string, desired, observed any) bool {
	switch {
	case contains(desired, observed):
		return true
	case quantityFields[key]:
		return sameAmounts(desired, observed)
	default:
		return key == "sizeLimit" && sameAmount(desired, observed)
	}
}

// sameAmounts reports whether the observed quantities include the desired quantities.
func sameAmounts(desired, observed any) bool {
	want, ok := desired.(map[string]any)
	have, isMap := observed.(map[string]any)
	if !ok || !isMap {
		return false
	}
	for name, amount := range want {
		if !sameAmount(amount, have[name]) {
			return false
		}
	}
	return true
}

// sameAmount reports whether two quantities are equal.
func sameAmount(desired, observed any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(desired))
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(fmt.Sprint(observed))
	return err == nil && x.Cmp(y) == 0
}
