// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Preflight sets checks that must pass before HelmOp installs or upgrades a
// release.
type Preflight struct {
	// images sets whether all images of a release must exist in their registries
	// before HelmOp installs or upgrades the release. Default: Ignored.
	// - Required: HelmOp renders the chart for the Cluster and looks up all images
	//   of its containers and image volumes, also of hooks.
	// - Ignored: HelmOp does not look up images.
	//
	// If an image is missing or cannot be looked up, HelmOp does not change the
	// release. The condition Released is False, with the reason ImagesMissing or
	// ImagesUnknown. HelmOp repeats the lookup at least every 5 minutes. A missing
	// image is not a failure and uses no retry.
	//
	// For the registry of the chart, HelmOp uses the credentials of spec.source
	// and of the manager. For other registries, HelmOp uses only the Secrets of
	// spec.source.
	//
	// HelmOp does not look up images before a return to the last known good
	// revision, the remediation of a failure, or a correction of drift. A release
	// with more than 500 images, or with images on more than 50 hosts, waits with
	// the reason ImagesUnknown. The manager makes the lookups. The lookups do not
	// use mirrors that are configured only on the nodes of a Cluster.
	// +optional
	Images ImagesPreflight `json:"images,omitempty"`
}

// ImagesPreflight sets whether HelmOp looks up the images of a release before
// it changes the release. The zero value is the same as Ignored.
// +kubebuilder:validation:Enum=Ignored;Required
type ImagesPreflight string

const (
	// ImagesPreflightIgnored does not look up images.
	ImagesPreflightIgnored ImagesPreflight = "Ignored"

	// ImagesPreflightRequired does not change the release until the registries have all images.
	ImagesPreflightRequired ImagesPreflight = "Required"
)
