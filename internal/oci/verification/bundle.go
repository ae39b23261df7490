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

// bundle looks at a Sigstore bundle.
func (c *cosignCheck) bundle(ctx context.Context, data []byte) ([]string, *refusal) {
	entity := &protobundle.Bundle{}
	if protojson.Unmarshal(data, entity) != nil {
		return nil, refuse(unreadable, "it is not a Sigstore bundle")
	}
	artifact, refused := c.statedBy(ctx, entity)
	if refused != nil {
		return nil, refused
	}
	byKey := entity.GetVerificationMaterial().GetPublicKey() != nil
	if byKey || len(c.rules.identities) == 0 {
		return c.keyed(entity, artifact)
	}
	return c.keyless(ctx, entity, artifact())
}

// artifactOption makes what a bundle must turn out to be about. It is made anew for
// each verification, which reads the artifact to its end.
type artifactOption func() verify.ArtifactPolicyOption

// statedBy returns what a bundle must turn out to be about. A statement that is
// not cosign's is no signature.
func (c *cosignCheck) statedBy(ctx context.Context, entity *protobundle.Bundle) (artifactOption, *refusal) {
	if entity.GetMessageSignature() != nil {
		_, manifest, err := c.registry.RawManifest(ctx, c.url, c.digest, c.access)
		if err != nil {
			c.found.missed(err)
			return nil, brokenBy(err)
		}
		return func() verify.ArtifactPolicyOption { return verify.WithArtifact(bytes.NewReader(manifest)) }, nil
	}
	var statement struct {
		PredicateType string `json:"predicateType"`
	}
	if json.Unmarshal(entity.GetDsseEnvelope().GetPayload(), &statement) != nil {
		return nil, refuse(unreadable, "it states nothing that can be read")
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

// keyed returns the keys that signed a bundle. What transparency log and
// timestamp authority say about it is left out: the key is what is trusted.
func (c *cosignCheck) keyed(entity *protobundle.Bundle, artifact artifactOption) ([]string, *refusal) {
	if entity.GetVerificationMaterial().GetPublicKey() == nil {
		return nil, refuse(wrongSigner, "it is keyless, and the policy has keys only")
	}
	if len(c.rules.keys) == 0 {
		return nil, c.notByKey()
	}
	entity = proto.CloneOf(entity)
	entity.VerificationMaterial.TlogEntries = nil
	entity.VerificationMaterial.TimestampVerificationData = nil
	signed, err := bundle.NewBundle(entity)
	if err != nil {
		return nil, refuse(unreadable, "it is malformed")
	}
	var signers []string
	refused := c.notByKey()
	for _, key := range c.rules.keys {
		// Which key a bundle says it is by is a hint that whoever wrote it chose.
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

// isOtherArtifact tells that a signature is good, but of something else. The
// library has no error value for it; only messages depend on the answer.
func isOtherArtifact(err error) bool {
	return strings.Contains(err.Error(), "provided artifact digest")
}

// keyless returns the identity that signed a bundle, if it is one of the
// policy's. At least one must be.
func (c *cosignCheck) keyless(ctx context.Context, entity *protobundle.Bundle,
	artifact verify.ArtifactPolicyOption,
) ([]string, *refusal) {
	signed, err := bundle.NewBundle(entity)
	if err != nil {
		return nil, refuse(unreadable, "it is malformed: %v", err)
	}
	material, err := c.rootOfTrust(ctx)
	if err != nil {
		c.found.missed(err)
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
	var stranger *verify.ErrNoMatchingCertificateIdentity
	switch {
	case errors.As(err, &stranger):
		return nil, refuse(wrongIdentity, "it is by %s, which is no identity of the policy", signerOf(signed))
	case err != nil && isOtherArtifact(err):
		return nil, refuse(wrongTarget, "it signs another artifact")
	case err != nil:
		return nil, refuse(wrongProof, "%v", err)
	}
	return []string{identityText(*result.Signature.Certificate)}, nil
}

// proofs are what a keyless signature must have beside its certificate, as far as
// a root has services that prove it. One transparency log must have it; its
// signed time, or that of a timestamp authority, is the one at which the
// certificate must have been valid.
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

// signerOf names who a certificate that has been verified is for.
func signerOf(signed *bundle.Bundle) string {
	content, err := signed.VerificationContent()
	if err != nil {
		return "somebody"
	}
	summary, err := certificate.SummarizeCertificate(content.Certificate())
	if err != nil {
		return "somebody"
	}
	return identityText(summary)
}

// identityText is an identity as results show it.
func identityText(summary certificate.Summary) string {
	return fmt.Sprintf("%s (issuer %s)", summary.SubjectAlternativeName, summary.Issuer)
}

// notByKey says that a signature by a key is by none that is trusted.
func (c *cosignCheck) notByKey() *refusal {
	if len(c.rules.keys) == 0 {
		return refuse(wrongSigner, "it is by a key, and the policy has identities only")
	}
	return refuse(wrongSigner, "it is by none of the policy's keys")
}
