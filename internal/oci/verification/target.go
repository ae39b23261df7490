// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// maxReferrers bounds the list of referrers of an artifact.
	maxReferrers = 1000
	// maxSignatures bounds the checked signatures of an artifact.
	maxSignatures = 100
	// maxSignature bounds one signature with its payload, in bytes. Real signatures have 10 KiB.
	maxSignature = 1 << 20

	// In lists under a tag, manifests without their own artifact type have one of these types: the media types of an empty
	// config and of images.
	typeEmpty = "application/vnd.oci.empty.v1+json"
	typeImage = "application/vnd.oci.image.config.v1+json"
)

// target is the artifact whose signatures are checked.
type target struct {
	registry *oci.Client
	url      string
	digest   string
	access   oci.Access
}

// String returns the target for messages.
func (t *target) String() string { return t.url + "@" + t.digest }

// contextError returns the error for the end of the caller's own context.
func (t *target) contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &ocierr.Error{Op: opVerify, Subject: t.String(), Kind: context.Canceled}
	}
	return &ocierr.Error{Op: opVerify, Subject: t.String(), Kind: ocierr.ErrUnreachable,
		Detail: "no result within the deadline"}
}

// referrers returns the referrers of the target that may be signatures, in the order of their priority. priority
// returns 0 for referrers to skip, and a negative number for attestations.
func (t *target) referrers(ctx context.Context, found *findings, priority func(oci.Referrer) int) []oci.Referrer {
	all, more, err := t.registry.Referrers(ctx, t.url, t.digest, t.access, maxReferrers)
	// An incomplete list may lack the signatures, whatever the error is.
	if err != nil && !errors.Is(err, ocierr.ErrNotFound) {
		found.recordError(err)
	}
	found.more = found.more || more
	all = slices.DeleteFunc(all, func(r oci.Referrer) bool {
		likely := priority(r)
		if likely < 0 {
			found.attestations++
		}
		return likely <= 0
	})
	slices.SortStableFunc(all, func(a, b oci.Referrer) int { return priority(b) - priority(a) })
	return all
}

// hasUnknownType reports whether the list does not contain the artifact type of a referrer, so that the manifest must
// be read.
func hasUnknownType(r oci.Referrer) bool {
	return r.ArtifactType == "" || r.ArtifactType == typeEmpty || r.ArtifactType == typeImage
}

// repository returns the repository in the form of trust policies.
func (t *target) repository() string { return strings.TrimPrefix(t.url, "oci://") }
