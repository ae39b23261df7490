// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxNamedImages is how many images a message names.
const maxNamedImages = 5

// imagesPending is the message while the images of a release are looked up for the first time.
const imagesPending = "The images of the release are being looked up in their registries"

// IsRequired reports whether a HelmOp requires that registries have the images of its releases.
func IsRequired(helmOp *addonsv1.HelmOp) bool {
	return helmOp != nil && helmOp.Spec.Preflight != nil &&
		helmOp.Spec.Preflight.Images == addonsv1.ImagesPreflightRequired
}

// Report returns the reason and the message of a release that waits for its images. The reason is empty if the last
// report of the release stays: lookups have not ended, and isReported is true because the release has failed or waits
// for images already. hide removes the values of Secrets from a text.
func (o *Outcome) Report(isReported bool, hide func(string) string) (reason, message string) {
	switch {
	case len(o.Missing) > 0:
		return addonsv1.ImagesMissingReason, missingImages(o, hide)
	case o.Refused != "":
		return addonsv1.ImagesUnknownReason, refusedImages(o)
	case o.IsPending && isReported:
		return "", ""
	case o.IsPending:
		return addonsv1.UpdatingReason, imagesPending
	default:
		return addonsv1.ImagesUnknownReason, unknownImages(o, hide)
	}
}

func missingImages(outcome *Outcome, hide func(string) string) string {
	return fmt.Sprintf("The release is not changed, because %s not in the registry: %s; push or mirror the images "+
		"(kubectl helmop mirror), correct the values, or set spec.preflight.images to Ignored. The images are looked up "+
		"again", plural.Count(len(outcome.Missing), "image is", "images are"),
		hide(plural.Few(outcome.Missing, maxNamedImages)))
}

func unknownImages(outcome *Outcome, hide func(string) string) string {
	return fmt.Sprintf("The release is not changed, because %s could not be looked up: %s: %s. The images are looked up "+
		"again", plural.Count(len(outcome.Unknown), "image", "images"),
		hide(plural.Few(outcome.Unknown, maxNamedImages)), hide(outcome.Err.Error()))
}

func refusedImages(outcome *Outcome) string {
	return fmt.Sprintf("The release is not changed, because its images are not looked up: %s; correct or split the "+
		"chart, or set spec.preflight.images to Ignored", outcome.Refused)
}
