// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const crdKind = "CustomResourceDefinition"

// phase returns the position of an object in the order of applying. Objects that other objects need come first.
func phase(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case crdKind:
		return 1
	case "ServiceAccount", "ClusterRole", "Role", "ConfigMap", "Secret":
		return 2
	case "ClusterRoleBinding", "RoleBinding":
		return 3
	case "Deployment":
		return 5
	default:
		return 4
	}
}

// inOrder sorts objects into the order in which they are applied.
func inOrder(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(phase(a), phase(b)), cmp.Compare(a.GetKind(), b.GetKind()),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// Own returns copies of the components with the ownership metadata of the provider's release, so that Helm adopts them.
// CustomResourceDefinitions belong to no release.
func Own(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	owned := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		object = object.DeepCopy()
		if object.GetKind() != crdKind {
			labels, annotations := object.GetLabels(), object.GetAnnotations()
			object.SetLabels(with(labels, inventory.ManagedByLabel, inventory.ManagedByHelm))
			annotations = with(annotations, inventory.HelmReleaseName, ProviderHelmOp)
			object.SetAnnotations(with(annotations, inventory.HelmReleaseNamespace, Namespace))
		}
		owned = append(owned, object)
	}
	return owned
}

func with(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}
