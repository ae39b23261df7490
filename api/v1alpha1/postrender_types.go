// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// PostRender changes the rendered objects of the chart, before HelmOp installs
// the objects. It does not change the hooks and the crds folder of the chart.
// Each string may contain templates over the Cluster, as in values.
type PostRender struct {
	// patches change single objects, as patches of kustomize do. HelmOp applies
	// the patches in the order of the list. A patch that matches no object is an
	// error.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Patches []Patch `json:"patches,omitempty"`

	// images replace the names, tags and digests of images, as images of kustomize
	// do. The entries apply to the images of containers and initContainers. HelmOp
	// ignores an entry that matches no image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Images []ImageOverride `json:"images,omitempty"`

	// commonMetadata sets labels and annotations on all objects. Selectors do not
	// change.
	// +optional
	CommonMetadata *ObjectMetadata `json:"commonMetadata,omitempty"`
}

// Patch changes the objects that its target selects.
type Patch struct {
	// patch is a strategic merge patch or a JSON patch (RFC 6902), in YAML or
	// JSON. Example of a JSON patch: '[{"op": "replace", "path": "/spec/replicas",
	// "value": 3}]'.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`

	// target selects the objects to patch. Without target, the patch must have the
	// apiVersion, kind and metadata.name of the object.
	// +optional
	Target *ObjectSelector `json:"target,omitempty"`
}

// ImageOverride replaces parts of the reference of an image.
type ImageOverride struct {
	// name is the name of the image in the chart, without tag and digest. Example:
	// "quay.io/cilium/cilium".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`

	// newName is the new name of the image. Example:
	// "registry.example.com/cilium/cilium". Default: the name does not change.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	NewName string `json:"newName,omitempty"`

	// newTag is the new tag of the image. Default: the tag does not change.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	NewTag string `json:"newTag,omitempty"`

	// digest replaces the tag and the digest of the image. Example: "sha256:" and
	// 64 hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Digest string `json:"digest,omitempty"`
}
