// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

func contentOf(info *resource.Info) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
}

// withoutBookkeeping returns an object without the fields that the API server changes with each write.
func withoutBookkeeping(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	copied := (&unstructured.Unstructured{Object: object}).DeepCopy()
	copied.SetManagedFields(nil)
	copied.SetResourceVersion("")
	copied.SetGeneration(0)
	unstructured.RemoveNestedField(copied.Object, "status")
	return copied.Object
}

// dropAllocated removes values that the cluster allocated from a new Service: a dry run allocates other addresses each
// time.
func dropAllocated(desired, created map[string]any) {
	service := unstructured.Unstructured{Object: created}
	if service.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Service") {
		return
	}
	for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
		if _, is, _ := unstructured.NestedFieldNoCopy(desired, "spec", field); !is {
			unstructured.RemoveNestedField(created, "spec", field)
		}
	}
	desiredPorts, _, _ := unstructured.NestedSlice(desired, "spec", "ports")
	ports, _, _ := unstructured.NestedSlice(created, "spec", "ports")
	for i, port := range ports {
		fields, _ := port.(map[string]any)
		var rendered map[string]any
		if i < len(desiredPorts) {
			rendered, _ = desiredPorts[i].(map[string]any)
		}
		if _, is := rendered["nodePort"]; !is {
			delete(fields, "nodePort")
		}
	}
	if len(ports) > 0 {
		// SetNestedSlice fails only if spec is not a map.
		_ = unstructured.SetNestedSlice(created, ports, "spec", "ports")
	}
}
