// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectinfo

import (
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// RefOf returns the reference to an object.
func RefOf(info *resource.Info) inventory.Ref {
	kind := info.Mapping.GroupVersionKind
	return inventory.Ref{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: info.Namespace,
		Name: info.Name}
}

// IsHook reports whether an object is a hook.
func IsHook(object metav1.Object) bool { return object.GetAnnotations()[release.HookAnnotation] != "" }

// HookOf describes the first object if it is a hook; ok is false otherwise.
func HookOf(resources kube.ResourceList) (description string, ok bool) {
	if len(resources) == 0 || resources[0].Mapping == nil {
		return "", false
	}
	object, err := meta.Accessor(resources[0].Object)
	if err != nil || !IsHook(object) {
		return "", false
	}
	return fmt.Sprintf("hook %s %s (%s)", resources[0].Mapping.GroupVersionKind.Kind, resources[0].Name,
		object.GetAnnotations()[release.HookAnnotation]), true
}

// EndOfKind returns the number of first objects that have the same kind.
func EndOfKind(resources kube.ResourceList) int {
	kind := resources[0].Mapping.GroupVersionKind
	end := slices.IndexFunc(resources, func(info *resource.Info) bool { return info.Mapping.GroupVersionKind != kind })
	if end < 0 {
		return len(resources)
	}
	return end
}

// Copies returns copies of infos and their objects.
func Copies(infos kube.ResourceList) kube.ResourceList {
	copied := make(kube.ResourceList, 0, len(infos))
	for _, info := range infos {
		one := *info
		one.Object = info.Object.DeepCopyObject()
		copied = append(copied, &one)
	}
	return copied
}

// ManifestsOf returns the objects as they are in the manifest. Each request replaces the object in an Info.
func ManifestsOf(infos kube.ResourceList) map[*resource.Info]runtime.Object {
	manifests := make(map[*resource.Info]runtime.Object, len(infos))
	for _, info := range infos {
		manifests[info] = info.Object
	}
	return manifests
}

// IsDeleting reports whether an object was being deleted when it was read or written.
func IsDeleting(info *resource.Info) bool {
	object, err := meta.Accessor(info.Object)
	return err == nil && object.GetDeletionTimestamp() != nil
}

// IsKeptByManifest reports whether an object has the keep policy in the manifest of its revision. For an upgrade, Helm
// itself reads only the annotation in the cluster, which another user may have removed.
func IsKeptByManifest(info *resource.Info) bool {
	recorded, err := meta.Accessor(info.Object)
	return err == nil && inventory.IsKept(recorded.GetAnnotations())
}
