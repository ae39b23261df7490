// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// TestCachedMetadataHasNoContent checks that the cache drops the annotations of Secrets and ConfigMaps: kubectl apply
// stores the whole content in an annotation. Labels and owners stay.
func TestCachedMetadataHasNoContent(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{apiutil.KindSecret, apiutil.KindConfigMap} {
		options := cacheOptions(&Options{})
		transform := options.DefaultTransform
		for object, by := range options.ByObject {
			if object.GetObjectKind().GroupVersionKind() == apiutil.PartialOf(kind).GroupVersionKind() {
				transform = by.Transform
			}
		}
		object := apiutil.PartialOf(kind)
		object.Name, object.ResourceVersion = "a", "5"
		object.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"key":"secret"}}`}
		object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		object.Labels = map[string]string{"a": "b"}
		object.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "one"}}
		cached, err := transform(object)
		if err != nil {
			t.Fatal(err)
		}
		got := cached.(*metav1.PartialObjectMetadata)
		if len(got.Annotations) != 0 || len(got.ManagedFields) != 0 {
			t.Errorf("%s: the cache has the content of an object: %v", kind, got.Annotations)
		}
		if got.ResourceVersion != "5" || got.Labels["a"] != "b" || len(got.OwnerReferences) != 1 {
			t.Errorf("%s: the cached metadata is %v", kind, got)
		}
	}
}
