// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Preflight are checks before a release is installed or upgraded.
type Preflight struct {
	// images is whether the images of a release must be in their registries before the release is installed or
	// upgraded. With Required, the chart is rendered for the Cluster, and each image of its containers and image
	// volumes, hooks included, is looked up. On the host of the chart, the credentials of source and of the manager
	// are used; on other hosts, only those that the Secrets of source have for the host. While an image is missing or
	// cannot be looked up, the release is not changed, its condition Released is False with the reason ImagesMissing
	// or ImagesUnknown, and the images are looked up again, at least every 5 minutes. This does not count as a
	// failure. A release with more than 500 images, or with images on more than 50 hosts, waits as ImagesUnknown. A
	// return to the last known good revision, the remediation of a failure and the correction of drift are not
	// checked. The lookups come from the manager: mirrors that only the nodes of a Cluster use are not known to it.
	// Ignored checks nothing. Default: Ignored.
	// +optional
	Images ImagesPreflight `json:"images,omitempty"`
}

// ImagesPreflight is whether the images of a release are looked up before the release is changed. The zero value is the
// same as Ignored.
// +kubebuilder:validation:Enum=Ignored;Required
type ImagesPreflight string

const (
	// ImagesPreflightIgnored checks nothing.
	ImagesPreflightIgnored ImagesPreflight = "Ignored"

	// ImagesPreflightRequired waits until the registries have all images.
	ImagesPreflightRequired ImagesPreflight = "Required"
)
