/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package inventory

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Of names an object.
func Of(obj *unstructured.Unstructured) Ref {
	gvk := obj.GroupVersionKind()
	return Ref{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
	}
}

// FromObjects names objects, in their order.
func FromObjects(objects []*unstructured.Unstructured) []Ref {
	refs := make([]Ref, 0, len(objects))
	for _, obj := range objects {
		refs = append(refs, Of(obj))
	}
	return refs
}

// Compare orders references by namespace, group, kind, name and version.
func Compare(a, b Ref) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Version, b.Version),
	)
}

// Sort sorts references as [Compare] orders them.
func Sort(refs []Ref) {
	slices.SortFunc(refs, Compare)
}
