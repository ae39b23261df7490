// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package knownobjects

import (
	"strconv"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// Expectation is an object whose content is known without reading it.
type Expectation struct {
	// Version is its resource version.
	Version string
	// Content is its content, as far as Helm needs it to compute a patch.
	Content *unstructured.Unstructured
}

// Expected returns the expected content of an object, or nil if its content is not known or must be read. original is
// the object in the manifest of the previous revision; nil if there is none. An object whose manifest does not change
// must be read: without a patch, there is no precondition, and only a read shows whether another client has changed the
// object.
//
// The content is known if HelmOp's last write was this manifest, and if the object has had no other generation since
// then. If the kind has no generations, the object must still have the resource version of the write.
func (v Versions) Expected(owner objectinfo.ReleaseName, original, info *resource.Info) *Expectation {
	known := v[versionKey(objectinfo.RefOf(info))]
	if original == nil || original == info || known.Number == 0 ||
		known.wrote.generation != known.Generation || original.Mapping.GroupVersionKind != info.Mapping.GroupVersionKind {
		return nil
	}
	before, ok := original.Object.(*unstructured.Unstructured)
	after, isSame := info.Object.(*unstructured.Unstructured)
	hasGeneration := known.Generation != known.Number
	if !ok || !isSame || !isPlain(before, hasGeneration) || !isPlain(after, hasGeneration) {
		return nil
	}
	content := before.DeepCopy()
	owner.Mark(content)
	if contentDigest(known.UID, content) != known.wrote.content {
		return nil
	}
	if !isAlwaysPatched(after) && contentDigest(known.UID, after) == known.wrote.content {
		return nil
	}
	content.Object = storedContent(content)
	if hasGeneration {
		// The generation does not prove that nothing changed in the labels and annotations. So the patch contains all of
		// them.
		content.SetLabels(nil)
		content.SetAnnotations(nil)
	}
	return &Expectation{Version: strconv.FormatInt(known.Number, 10), Content: content}
}

// isAlwaysPatched reports whether Helm patches an object even if its manifest does not change. The API server stores
// the texts of a Secret as data. And the patch strategy of the selector of a PodDisruptionBudget is to replace it, so
// each patch contains the selector.
func isAlwaysPatched(manifest *unstructured.Unstructured) bool {
	if manifest.GroupVersionKind() == policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget") {
		selector, _, err := unstructured.NestedMap(manifest.Object, "spec", "selector")
		return err == nil && len(selector) > 0
	}
	_, hasTexts := manifest.Object["stringData"]
	return hasTexts
}

// plainMetadata are the fields of metadata that a manifest may have for a patch without a read.
var plainMetadata = map[string]bool{"name": true, "namespace": true, "labels": true, "annotations": true}

// isPlain reports whether a patch of an object can be computed from its manifests. The generation proves only that the
// spec did not change.
func isPlain(manifest *unstructured.Unstructured, hasGeneration bool) bool {
	metadata, _ := manifest.Object["metadata"].(map[string]any)
	for field, value := range metadata {
		if !plainMetadata[field] && value != nil {
			return false
		}
	}
	for field := range manifest.Object {
		switch field {
		case "apiVersion", "kind", "metadata", "spec":
		default:
			if hasGeneration {
				return false
			}
		}
	}
	return true
}
