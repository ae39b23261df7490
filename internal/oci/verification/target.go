// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

const (
	// maxReferrers bounds the list of what refers to an artifact.
	maxReferrers = 1000
	// maxSignatures bounds how many signatures of an artifact are looked at.
	maxSignatures = 100
	// maxSignature bounds one signature with what it signs. Real ones have 10 KiB.
	maxSignature = 1 << 20

	// The artifact types that lists kept under a tag give for what they do not
	// know better: of an empty config, and of images.
	typeEmpty = "application/vnd.oci.empty.v1+json"
	typeImage = "application/vnd.oci.image.config.v1+json"
)

// target is an artifact whose signatures are looked for.
type target struct {
	registry *oci.Client
	url      string
	digest   string
	access   oci.Access
}

// String returns the target as messages name it.
func (t *target) String() string { return t.url + "@" + t.digest }

// gaveUp describes the end of the caller's own context.
func (t *target) gaveUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &oci.Error{Op: opVerify, Subject: t.String(), Kind: context.Canceled}
	}
	return &oci.Error{Op: opVerify, Subject: t.String(), Kind: oci.ErrUnreachable, Detail: "no result within the deadline"}
}

// referrers returns what refers to the target and may be a signature, the most
// promising first: interest returns how promising a referrer is, 0 for not at all
// and less for an attestation.
func (t *target) referrers(ctx context.Context, found *findings, interest func(oci.Referrer) int) []oci.Referrer {
	all, more, err := t.registry.Referrers(ctx, t.url, t.digest, t.access, maxReferrers)
	if err != nil && !isBroken(err) {
		found.missed(err)
	}
	found.more = found.more || more
	all = slices.DeleteFunc(all, func(r oci.Referrer) bool {
		likely := interest(r)
		if likely < 0 {
			found.attestations++
		}
		return likely <= 0
	})
	slices.SortStableFunc(all, func(a, b oci.Referrer) int { return interest(b) - interest(a) })
	return all
}

// saysNothing tells referrers whose type is only known from their manifest.
func saysNothing(r oci.Referrer) bool {
	return r.ArtifactType == "" || r.ArtifactType == typeEmpty || r.ArtifactType == typeImage
}

// repository returns the repository as trust policies name it.
func (t *target) repository() string { return strings.TrimPrefix(t.url, "oci://") }
