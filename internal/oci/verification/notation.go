// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"fmt"

	"github.com/notaryproject/notation-core-go/revocation/purpose"
	"github.com/notaryproject/notation-go"
	"github.com/notaryproject/notation-go/registry"
	"github.com/notaryproject/notation-go/verifier"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// notationCheck searches for one notation signature that satisfies a policy. It does not use the library's loop,
// because this loop stops at the first signature that cannot be fetched.
type notationCheck struct {
	*target
	verifier   notation.Verifier
	revocation *revocationCheck
	// artifact is the artifact that must be signed.
	artifact ocispec.Descriptor
	found    *findings
}

// verifyNotation returns the signers of the first valid signature, or nothing. Errors concern the
// policy or the registry. Refused signatures are recorded in found.
func (v *Verifier) verifyNotation(ctx context.Context, target *target, rules *notationRules,
	found *findings,
) ([]string, error) {
	if err := rules.appliesTo(target); err != nil {
		return nil, err
	}
	check := &notationCheck{target: target, found: found}
	client, err := v.opts.client()
	if err != nil {
		return nil, err
	}
	if check.revocation, err = newRevocationCheck(target.registry, client); err != nil {
		return nil, err
	}
	if check.verifier, err = rules.verifier(check.revocation); err != nil {
		return nil, err
	}
	mediaType, manifest, err := target.registry.RawManifest(ctx, target.url, target.digest, target.access)
	if err != nil {
		return nil, err
	}
	check.artifact = ocispec.Descriptor{MediaType: mediaType, Digest: godigest.Digest(target.digest),
		Size: int64(len(manifest))}
	return check.run(ctx), nil
}

// appliesTo returns nil if the trust policy has a statement for the target that requires verification.
func (r *notationRules) appliesTo(target *target) error {
	const hint = `its registryScopes must name the repository, or "*"`
	statement, err := r.document.GetApplicableTrustPolicy(target.repository() + "@" + target.digest)
	if err != nil {
		return invalidPolicy(fmt.Sprintf("no statement of the trust policy applies to %s", target.repository()), hint)
	}
	if statement.SignatureVerification.VerificationLevel == trustpolicy.LevelSkip.Name {
		return invalidPolicy(fmt.Sprintf("statement %q has the level \"skip\" for %s, which disables verification",
			clip(statement.Name), target.repository()),
			`use "strict", or remove spec.source.verify`)
	}
	return nil
}

// verifier returns the library's verifier with a revocation check.
func (r *notationRules) verifier(check *revocationCheck) (notation.Verifier, error) {
	signing, err := check.validator(purpose.CodeSigning)
	if err != nil {
		return nil, err
	}
	stamping, err := check.validator(purpose.Timestamping)
	if err != nil {
		return nil, err
	}
	made, err := verifier.NewWithOptions(r.document, r.stores, nil, verifier.VerifierOptions{
		RevocationCodeSigningValidator: signing, RevocationTimestampingValidator: stamping,
	})
	if err != nil {
		return nil, invalidPolicy(clip(err.Error()), "")
	}
	return made, nil
}

// run checks the signatures until one is valid.
func (c *notationCheck) run(ctx context.Context) []string {
	for i, referrer := range c.referrers(ctx, c.found, notationPriority) {
		if i == maxSignatures {
			c.found.more = true
			return nil
		}
		content, err := c.registry.Fetch(ctx, c.url, referrer.Digest, c.access)
		if err == nil && content.ConfigMediaType != registry.ArtifactTypeNotation &&
			content.ArtifactType != registry.ArtifactTypeNotation {
			continue // the list had no artifact type, and the manifest has another one
		}
		c.found.signatures++
		var signers []string
		var refused *refusal
		if err == nil {
			signers, refused, err = c.check(ctx, content)
		}
		switch {
		case err != nil && !isBroken(err):
			c.found.recordError(err)
			return nil
		case err != nil:
			c.found.recordRefusal(unreadableBy(err))
		case refused != nil:
			c.found.recordRefusal(refused)
		default:
			return signers
		}
	}
	return nil
}

func notationPriority(r oci.Referrer) int {
	switch {
	case r.ArtifactType == registry.ArtifactTypeNotation:
		return 2
	case hasUnknownType(r):
		return 1
	default:
		return 0
	}
}

// check verifies one signature. The error means that the signature could not be read, or not be checked now.
func (c *notationCheck) check(ctx context.Context,
	content *oci.Content,
) (signers []string, refused *refusal, err error) {
	if len(content.Layers) != 1 {
		return nil, refuse(unreadable, "it has %d layers, and must have one", len(content.Layers)), nil
	}
	envelope, err := content.ReadSmallLayer(ctx, content.Layers[0], maxSignature)
	if err != nil {
		return nil, nil, err
	}
	defer refusePanic(&signers, &refused)
	outcome, failure := c.verifier.Verify(ctx, c.artifact, envelope, notation.VerifierVerifyOptions{
		ArtifactReference:  c.repository() + "@" + c.digest,
		SignatureMediaType: content.Layers[0].MediaType,
	})
	if failure != nil {
		refused = refusalOf(outcome, failure)
	}
	refused, err = c.revocation.explain(refused, c.String())
	if refused != nil || err != nil {
		return nil, refused, err
	}
	chain := outcome.EnvelopeContent.SignerInfo.CertificateChain
	return []string{chain[0].Subject.String()}, nil, nil
}

// refusalOf returns the refusal for a failed verification. Its closeness depends on the failed step.
func refusalOf(outcome *notation.VerificationOutcome, failure error) *refusal {
	if outcome == nil || len(outcome.VerificationResults) == 0 {
		return refuse(unreadable, "%v", failure)
	}
	last := outcome.VerificationResults[len(outcome.VerificationResults)-1]
	switch {
	case last.Error == nil:
		return refuse(wrongTarget, "it signs another artifact: %v", failure)
	case last.Type == trustpolicy.TypeIntegrity:
		return refuse(unreadable, "it is malformed, or was modified")
	case last.Type == trustpolicy.TypeAuthenticity:
		return refuse(wrongSigner, "%v", failure)
	default:
		return refuse(wrongProof, "%s: %v", last.Type, failure)
	}
}
