// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// How cosign stores signatures, see
// https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md and
// https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md.
const (
	typeBundlePrefix  = "application/vnd.dev.sigstore.bundle"
	typeLegacy        = "application/vnd.dev.cosign.artifact.sig.v1+json"
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"

	// annotationPredicate repeats what a bundle states.
	annotationPredicate = "dev.sigstore.bundle.predicateType"
	// predicateSign states that its signer signed the artifact, no more.
	predicateSign = "https://sigstore.dev/cosign/sign/v1"
)

// cosignCheck looks for one signature by cosign that satisfies a policy.
type cosignCheck struct {
	*target
	rules *cosignRules
	// root returns the public Sigstore's trusted root.
	root  func(context.Context) (*root.TrustedRoot, error)
	found *findings
	// left is how many more signatures of a layout are looked at.
	left int
}

// run returns the signers of the first manifest that has a good signature, or
// nothing. What refers to the artifact comes before the legacy tag, for it is
// the newer way.
func (c *cosignCheck) run(ctx context.Context) []string {
	for i, referrer := range c.referrers(ctx, c.found, cosignInterest) {
		if i == maxSignatures || c.left == 0 {
			c.found.more = true
			break
		}
		content, err := c.registry.Fetch(ctx, c.url, referrer.Digest, c.access)
		if err != nil && !isBroken(err) {
			// The registry does not answer: asking for the others one by one
			// would only take time.
			c.found.missed(err)
			break
		}
		if err != nil {
			c.count(brokenBy(err))
			continue
		}
		if signers := c.manifest(ctx, content); len(signers) > 0 {
			return signers
		}
	}
	c.left = maxSignatures
	return c.legacyTag(ctx)
}

// cosignInterest says how likely a referrer is a signature; attestations of other
// things are told by a negative number.
func cosignInterest(r oci.Referrer) int {
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
	case saysNothing(r):
		return 1
	default:
		return 0
	}
}

// legacyTag looks at the signatures under the tag that cosign derives from the
// digest. That of a SHA-512 is too long for a tag, so cosign has none.
func (c *cosignCheck) legacyTag(ctx context.Context) []string {
	tag := strings.Replace(c.digest, ":", "-", 1) + ".sig"
	if (oci.Source{URL: c.url, Ref: oci.Reference{Tag: tag}}).Validate() != nil {
		return nil
	}
	content, err := c.registry.FetchTag(ctx, c.url, tag, c.access)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return nil
	case err != nil && isBroken(err):
		c.count(brokenBy(err))
		return nil
	case err != nil:
		c.found.missed(err)
		return nil
	}
	return c.manifest(ctx, content)
}

// manifest returns whose good signatures a manifest holds. The last are looked
// at first: cosign appends, so those are the newest.
func (c *cosignCheck) manifest(ctx context.Context, content *oci.Content) []string {
	var signers []string
	for i := len(content.Layers) - 1; i >= 0; i-- {
		layer := content.Layers[i]
		bundle := strings.HasPrefix(layer.MediaType, typeBundlePrefix)
		if !bundle && layer.MediaType != typeSimpleSigning {
			continue
		}
		if c.left == 0 {
			c.found.more = true
			break
		}
		c.left--
		data, err := content.ReadSmallLayer(ctx, layer, maxSignature)
		if err != nil && !isBroken(err) {
			c.found.missed(err)
			break
		}
		if err != nil {
			c.count(brokenBy(err))
			continue
		}
		by, refused := c.look(ctx, bundle, data, layer.Annotations)
		signers = append(signers, by...)
		c.count(refused)
	}
	return signers
}

// look returns whose signature it is, or why it does not count.
func (c *cosignCheck) look(ctx context.Context, bundle bool, data []byte,
	annotations map[string]string,
) (signers []string, refused *refusal) {
	defer refusePanic(&signers, &refused)
	if bundle {
		return c.bundle(ctx, data)
	}
	return c.simpleSigning(ctx, data, annotations)
}

// attestation stands for a bundle that is no signature.
var attestation = &refusal{}

// count notes a signature that was looked at; refused is nil for a good one.
func (c *cosignCheck) count(refused *refusal) {
	if refused == attestation {
		c.found.attestations++
		return
	}
	c.found.signatures++
	if refused != nil {
		c.found.refused(refused)
	}
}

// rootOfTrust returns the policy's trusted root, or the public Sigstore's.
func (c *cosignCheck) rootOfTrust(ctx context.Context) (*root.TrustedRoot, error) {
	if c.rules.root != nil {
		return c.rules.root, nil
	}
	return c.root(ctx)
}
