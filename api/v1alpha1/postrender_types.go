// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// PostRender changes what the chart rendered before it is installed; hooks and the folder crds are not changed. Every
// string in it is a template over the Cluster, as in values.
type PostRender struct {
	// patches are applied in their order, like patches of kustomize. A patch that matches no object is an error.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Patches []Patch `json:"patches,omitempty"`

	// images replace names, tags and digests of the images of containers and initContainers, like images of kustomize.
	// An entry that matches no image is ignored.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Images []ImageOverride `json:"images,omitempty"`

	// commonMetadata are labels and annotations for all objects. Selectors are not changed.
	// +optional
	CommonMetadata *ObjectMetadata `json:"commonMetadata,omitempty"`
}

// Patch changes objects.
type Patch struct {
	// patch is a strategic merge patch or a JSON patch (RFC 6902), as YAML or JSON.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`

	// target chooses the objects. Without it, the patch must name its object, by apiVersion, kind and metadata.name.
	// +optional
	Target *ObjectSelector `json:"target,omitempty"`
}

// ImageOverride replaces parts of an image's reference.
type ImageOverride struct {
	// name is the image as the chart names it, without tag and digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`

	// newName replaces the name.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	NewName string `json:"newName,omitempty"`

	// newTag replaces the tag.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	NewTag string `json:"newTag,omitempty"`

	// digest replaces tag and digest.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Digest string `json:"digest,omitempty"`
}
