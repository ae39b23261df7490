// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Of returns the reference to an object.
func Of(obj *unstructured.Unstructured) Ref {
	gvk := obj.GroupVersionKind()
	return Ref{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
	}
}

// FromObjects returns the references to objects, in the same order.
func FromObjects(objects []*unstructured.Unstructured) []Ref {
	refs := make([]Ref, 0, len(objects))
	for _, obj := range objects {
		refs = append(refs, Of(obj))
	}
	return refs
}

// Compare orders references for slices.SortFunc: by namespace, group, kind, name and version.
func Compare(a, b Ref) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Version, b.Version),
	)
}

// Sort sorts references in the order of [Compare].
func Sort(refs []Ref) {
	slices.SortFunc(refs, Compare)
}
