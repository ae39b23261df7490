// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// These names and types are defined by cosign, see https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
// and https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md.
const (
	typeBundlePrefix  = "application/vnd.dev.sigstore.bundle"
	typeLegacy        = "application/vnd.dev.cosign.artifact.sig.v1+json"
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"

	// annotationPredicate is the annotation with the predicate type of a bundle.
	annotationPredicate = "dev.sigstore.bundle.predicateType"
	// predicateSign is the predicate type of a plain signature of an artifact.
	predicateSign = "https://sigstore.dev/cosign/sign/v1"
)

// cosignCheck searches for one cosign signature that satisfies a policy.
type cosignCheck struct {
	*target
	rules *cosignRules
	// root returns the trusted root of the public Sigstore.
	root  func(context.Context) (*root.TrustedRoot, error)
	found *findings
	// remaining is the number of signatures of a layout that may still be checked.
	remaining int
}

// run returns the signers of the first manifest with a valid signature, or nothing. It checks the
// referrers before the legacy tag, because new versions of cosign use referrers.
func (c *cosignCheck) run(ctx context.Context) []string {
	for i, referrer := range c.referrers(ctx, c.found, cosignPriority) {
		if i == maxSignatures || c.remaining == 0 {
			c.found.more = true
			break
		}
		content, err := c.registry.Fetch(ctx, c.url, referrer.Digest, c.access)
		if err != nil && !isBroken(err) {
			// The registry does not answer: do not request the other manifests.
			c.found.recordError(err)
			break
		}
		if err != nil {
			c.count(unreadableBy(err))
			continue
		}
		if signers := c.manifest(ctx, content); len(signers) > 0 {
			return signers
		}
	}
	c.remaining = maxSignatures
	return c.legacyTag(ctx)
}

// cosignPriority returns how likely a referrer is a signature; 0 if it is not a signature. Attestations have a negative
// priority.
func cosignPriority(r oci.Referrer) int {
	predicate := r.Annotations[annotationPredicate]
	switch {
	case predicate == predicateSign:
		return 4
	case predicate != "":
		return -1
	case strings.HasPrefix(r.ArtifactType, typeBundlePrefix):
		return 3
	case r.ArtifactType == typeLegacy:
		return 2
	case hasUnknownType(r):
		return 1
	default:
		return 0
	}
}

// legacyTag checks the signatures under the tag that cosign derives from the digest. A SHA-512
// digest is too long for a tag, so cosign does not use this tag for it.
func (c *cosignCheck) legacyTag(ctx context.Context) []string {
	tag := strings.Replace(c.digest, ":", "-", 1) + ".sig"
	if (oci.Source{URL: c.url, Ref: oci.Reference{Tag: tag}}).Validate() != nil {
		return nil
	}
	content, err := c.registry.FetchTag(ctx, c.url, tag, c.access)
	switch {
	case errors.Is(err, ocierr.ErrNotFound):
		return nil
	case err != nil && isBroken(err):
		c.count(unreadableBy(err))
		return nil
	case err != nil:
		c.found.recordError(err)
		return nil
	}
	return c.manifest(ctx, content)
}

// manifest returns the signers of the valid signatures in a manifest. It checks the last layers
// first, because cosign appends new signatures.
func (c *cosignCheck) manifest(ctx context.Context, content *oci.Content) []string {
	var signers []string
	for i := len(content.Layers) - 1; i >= 0; i-- {
		layer := content.Layers[i]
		bundle := strings.HasPrefix(layer.MediaType, typeBundlePrefix)
		if !bundle && layer.MediaType != typeSimpleSigning {
			continue
		}
		if c.remaining == 0 {
			c.found.more = true
			break
		}
		c.remaining--
		data, err := content.ReadSmallLayer(ctx, layer, maxSignature)
		if err != nil && !isBroken(err) {
			c.found.recordError(err)
			break
		}
		if err != nil {
			c.count(unreadableBy(err))
			continue
		}
		by, refused := c.check(ctx, bundle, data, layer.Annotations)
		signers = append(signers, by...)
		c.count(refused)
	}
	return signers
}

// check returns the signers of one signature, or the refusal.
func (c *cosignCheck) check(ctx context.Context, bundle bool, data []byte,
	annotations map[string]string,
) (signers []string, refused *refusal) {
	defer refusePanic(&signers, &refused)
	if bundle {
		return c.bundle(ctx, data)
	}
	return c.simpleSigning(ctx, data, annotations)
}

// attestation is the refusal of a bundle that is an attestation, not a signature.
var attestation = &refusal{}

// count records a checked signature. refused is nil for a valid signature.
func (c *cosignCheck) count(refused *refusal) {
	if refused == attestation {
		c.found.attestations++
		return
	}
	c.found.signatures++
	if refused != nil {
		c.found.recordRefusal(refused)
	}
}

// rootOfTrust returns the policy's trusted root, or the public Sigstore's.
func (c *cosignCheck) rootOfTrust(ctx context.Context) (*root.TrustedRoot, error) {
	if c.rules.root != nil {
		return c.rules.root, nil
	}
	return c.root(ctx)
}
