// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// bundle verifies a Sigstore bundle and returns its signers.
func (c *cosignCheck) bundle(ctx context.Context, data []byte) ([]string, *refusal) {
	entity := &protobundle.Bundle{}
	if protojson.Unmarshal(data, entity) != nil {
		return nil, refuse(unreadable, "it is not a Sigstore bundle")
	}
	artifact, refused := c.signedArtifact(ctx, entity)
	if refused != nil {
		return nil, refused
	}
	byKey := entity.GetVerificationMaterial().GetPublicKey() != nil
	if byKey || len(c.rules.identities) == 0 {
		return c.keyed(entity, artifact)
	}
	return c.keyless(ctx, entity, artifact())
}

// artifactOption returns the option with the artifact that a bundle must sign. It returns a new
// option for each verification, because a verification reads the artifact to its end.
type artifactOption func() verify.ArtifactPolicyOption

// signedArtifact returns the option for the artifact that a bundle must sign. A statement of another kind than cosign's
// statement is not a signature.
func (c *cosignCheck) signedArtifact(ctx context.Context, entity *protobundle.Bundle) (artifactOption, *refusal) {
	if entity.GetMessageSignature() != nil {
		_, manifest, err := c.registry.RawManifest(ctx, c.url, c.digest, c.access)
		if err != nil {
			c.found.recordError(err)
			return nil, unreadableBy(err)
		}
		return func() verify.ArtifactPolicyOption { return verify.WithArtifact(bytes.NewReader(manifest)) }, nil
	}
	var statement struct {
		PredicateType string `json:"predicateType"`
	}
	if json.Unmarshal(entity.GetDsseEnvelope().GetPayload(), &statement) != nil {
		return nil, refuse(unreadable, "its statement cannot be read")
	}
	if statement.PredicateType != predicateSign {
		return nil, attestation
	}
	algorithm, encoded, _ := strings.Cut(c.digest, ":")
	sum, err := hex.DecodeString(encoded)
	if err != nil {
		return nil, refuse(unreadable, "the digest of the artifact is malformed")
	}
	return func() verify.ArtifactPolicyOption { return verify.WithArtifactDigest(algorithm, sum) }, nil
}

// keyed returns the keys that signed a bundle. It ignores transparency logs and timestamp
// authorities, because the policy trusts the key itself.
func (c *cosignCheck) keyed(entity *protobundle.Bundle, artifact artifactOption) ([]string, *refusal) {
	if entity.GetVerificationMaterial().GetPublicKey() == nil {
		return nil, refuse(wrongSigner, "it is keyless, and the policy has keys only")
	}
	if len(c.rules.keys) == 0 {
		return nil, c.wrongKey()
	}
	entity = proto.CloneOf(entity)
	entity.VerificationMaterial.TlogEntries = nil
	entity.VerificationMaterial.TimestampVerificationData = nil
	signed, err := bundle.NewBundle(entity)
	if err != nil {
		return nil, refuse(unreadable, "it is malformed")
	}
	var signers []string
	refused := c.wrongKey()
	for _, key := range c.rules.keys {
		// Ignore the key hint of the bundle, because the author of the bundle chose it.
		material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
			return root.NewExpiringKey(key, time.Time{}, time.Time{}), nil
		})
		verifier, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps(), verify.WithoutStatementPredicate())
		if err != nil {
			return nil, refuse(wrongProof, "%v", err)
		}
		_, err = verifier.Verify(signed, verify.NewPolicy(artifact(), verify.WithKey()))
		switch {
		case err == nil:
			signers = append(signers, key.signer())
		case isOtherArtifact(err):
			refused = refuse(wrongTarget, "it signs another artifact")
		case errors.Is(err, verify.ErrDSSEInvalidSignatureCount):
			refused = refuse(unreadable, "its envelope must have exactly one signature")
		}
	}
	if len(signers) == 0 {
		return nil, refused
	}
	return signers, nil
}

// isOtherArtifact reports whether a valid signature is for another artifact. The library has no
// error value for it. The result affects messages only.
func isOtherArtifact(err error) bool {
	return strings.Contains(err.Error(), "provided artifact digest")
}

// keyless returns the identity that signed a bundle, if the policy contains it. The policy must
// have at least one identity.
func (c *cosignCheck) keyless(ctx context.Context, entity *protobundle.Bundle,
	artifact verify.ArtifactPolicyOption,
) ([]string, *refusal) {
	signed, err := bundle.NewBundle(entity)
	if err != nil {
		return nil, refuse(unreadable, "it is malformed: %v", err)
	}
	material, err := c.rootOfTrust(ctx)
	if err != nil {
		c.found.recordError(err)
		return nil, refuse(wrongProof, "there is no trusted root to verify it with")
	}
	verifier, err := verify.NewVerifier(material, proofs(material)...)
	if err != nil {
		return nil, refuse(wrongProof, "%v", err)
	}
	options := make([]verify.PolicyOption, 0, len(c.rules.identities))
	for _, identity := range c.rules.identities {
		options = append(options, verify.WithCertificateIdentity(identity))
	}
	result, err := verifier.Verify(signed, verify.NewPolicy(artifact, options...))
	var mismatch *verify.ErrNoMatchingCertificateIdentity
	switch {
	case errors.As(err, &mismatch):
		return nil, refuse(wrongIdentity, "it is signed by %s, which is not an identity of the policy", signerOf(signed))
	case err != nil && isOtherArtifact(err):
		return nil, refuse(wrongTarget, "it signs another artifact")
	case err != nil:
		return nil, refuse(wrongProof, "%v", err)
	}
	return []string{identityText(*result.Signature.Certificate)}, nil
}

// proofs returns the options for the proofs that a keyless signature needs in addition to its certificate. It requires
// only proofs for which the root has services. If the root has transparency logs, one of them must contain the
// signature. The certificate must have been valid at the time that a log or a timestamp authority signed.
func proofs(material root.TrustedMaterial) []verify.VerifierOption {
	options := []verify.VerifierOption{verify.WithoutStatementPredicate()}
	if len(material.RekorLogs()) > 0 {
		options = append(options, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	} else {
		options = append(options, verify.WithSignedTimestamps(1))
	}
	if len(material.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	return options
}

// signerOf returns the identity in a verified certificate.
func signerOf(signed *bundle.Bundle) string {
	content, err := signed.VerificationContent()
	if err != nil {
		return "an unknown identity"
	}
	summary, err := certificate.SummarizeCertificate(content.Certificate())
	if err != nil {
		return "an unknown identity"
	}
	return identityText(summary)
}

// identityText returns an identity in the form of Result.Signers.
func identityText(summary certificate.Summary) string {
	return fmt.Sprintf("%s (issuer %s)", summary.SubjectAlternativeName, summary.Issuer)
}

// wrongKey returns the refusal of a signature that no key of the policy made.
func (c *cosignCheck) wrongKey() *refusal {
	if len(c.rules.keys) == 0 {
		return refuse(wrongSigner, "it is signed by a key, and the policy has identities only")
	}
	return refuse(wrongSigner, "it is signed by none of the policy's keys")
}
