// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package knownobjects

import (
	"encoding/base64"
	"encoding/json"
	"hash/maphash"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// written is a write of an object after which the object had the content of its manifest.
type written struct {
	// content is the digest of the UID of the object and of the manifest; 0 if there was no such write.
	content uint64
	// generation is metadata.generation after the write or, if the kind has no generations, the resource version.
	generation int64
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
	if !ok || !isSame || !objectinfo.Contains(storedContent(desired), observed.Object) {
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
