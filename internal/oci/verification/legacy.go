// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// The annotations of a layer that holds a legacy signature.
const (
	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationLog         = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"

	// typeBundleLegacy is the bundle version for the content of legacy signatures: its log entries have an inclusion
	// promise and no proof.
	typeBundleLegacy = typeBundlePrefix + "+json;version=0.1"
)

// simpleSigning verifies a legacy signature: a text with the digest, and an annotation with the signature of the text.
func (c *cosignCheck) simpleSigning(ctx context.Context, text []byte,
	annotations map[string]string,
) ([]string, *refusal) {
	signature, err := base64.StdEncoding.DecodeString(annotations[annotationSignature])
	if err != nil || len(signature) == 0 {
		return nil, refuse(unreadable, "it has no signature as base64 in the annotation %s", annotationSignature)
	}
	var signers []string
	for _, key := range c.rules.keys {
		if key.VerifySignature(bytes.NewReader(signature), bytes.NewReader(text)) == nil {
			signers = append(signers, key.signer())
		}
	}
	if len(signers) == 0 && (len(c.rules.identities) == 0 || annotations[annotationCertificate] == "") {
		return nil, c.wrongKey()
	}
	if len(signers) == 0 {
		entity, refused := legacyBundle(text, signature, annotations)
		if refused != nil {
			return nil, refused
		}
		if signers, refused = c.keyless(ctx, entity, verify.WithArtifact(bytes.NewReader(text))); refused != nil {
			return nil, refused
		}
	}
	if refused := c.checkPayload(text); refused != nil {
		return nil, refused
	}
	return signers, nil
}

// checkPayload returns nil if a signed text names the target.
func (c *cosignCheck) checkPayload(text []byte) *refusal {
	var claim payload.SimpleContainerImage
	if json.Unmarshal(text, &claim) != nil {
		return refuse(unreadable, "its signed payload is not JSON of the right form")
	}
	if claim.Critical.Type != payload.CosignSignatureType {
		return refuse(wrongTarget, "its signed payload has the type %q", claim.Critical.Type)
	}
	if claim.Critical.Image.DockerManifestDigest != c.digest {
		return refuse(wrongTarget, "it signs another artifact, %s", claim.Critical.Image.DockerManifestDigest)
	}
	return nil
}

// legacyLog is the annotation with a log entry.
type legacyLog struct {
	SignedEntryTimestamp []byte `json:"SignedEntryTimestamp"`
	Payload              struct {
		Body           []byte `json:"body"`
		IntegratedTime int64  `json:"integratedTime"`
		LogIndex       int64  `json:"logIndex"`
		LogID          string `json:"logID"`
	} `json:"Payload"`
}

// legacyTimestamp is the annotation with a signed timestamp.
type legacyTimestamp struct {
	SignedRFC3161Timestamp []byte `json:"SignedRFC3161Timestamp"`
}

// legacyBundle converts a keyless legacy signature to a bundle, so that the same code verifies
// both.
func legacyBundle(text, signature []byte, annotations map[string]string) (*protobundle.Bundle, *refusal) {
	block, _ := pem.Decode([]byte(annotations[annotationCertificate]))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, refuse(unreadable, "its certificate is not PEM")
	}
	material := &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_X509CertificateChain{
			X509CertificateChain: &protocommon.X509CertificateChain{
				Certificates: []*protocommon.X509Certificate{{RawBytes: block.Bytes}},
			}},
	}
	// The log entry names the hash algorithm. Without an entry, the hash is not used.
	algorithm := "sha256"
	if data := annotations[annotationLog]; data != "" {
		entry, parsed, refused := legacyEntry(data)
		if refused != nil {
			return nil, refused
		}
		material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
		if _, name, ok := parsed.GetHashedRekordDigest(); ok {
			algorithm = name
		}
	}
	if data := annotations[annotationTimestamp]; data != "" {
		var stamp legacyTimestamp
		if json.Unmarshal([]byte(data), &stamp) != nil {
			return nil, refuse(unreadable, "its timestamp is not JSON of the right form")
		}
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp.SignedRFC3161Timestamp}},
		}
	}
	return &protobundle.Bundle{
		MediaType:            typeBundleLegacy,
		VerificationMaterial: material,
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: hashed(text, algorithm), Signature: signature,
		}},
	}, nil
}

// legacyEntry parses the annotation with a log entry.
func legacyEntry(data string) (*protorekor.TransparencyLogEntry, *tlog.Entry, *refusal) {
	malformed := refuse(unreadable, "its log entry is not of the right form")
	var log legacyLog
	if json.Unmarshal([]byte(data), &log) != nil {
		return nil, nil, malformed
	}
	id, err := hex.DecodeString(log.Payload.LogID)
	if err != nil {
		return nil, nil, malformed
	}
	var kind struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	if json.Unmarshal(log.Payload.Body, &kind) != nil {
		return nil, nil, malformed
	}
	entry := &protorekor.TransparencyLogEntry{
		LogIndex:          log.Payload.LogIndex,
		LogId:             &protocommon.LogId{KeyId: id},
		KindVersion:       &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		IntegratedTime:    log.Payload.IntegratedTime,
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: log.SignedEntryTimestamp},
		CanonicalizedBody: log.Payload.Body,
	}
	parsed, err := tlog.ParseTransparencyLogEntry(entry)
	if err != nil {
		return nil, nil, malformed
	}
	return entry, parsed, nil
}

// hashed returns the hash of a text by an algorithm of a log entry.
func hashed(text []byte, algorithm string) *protocommon.HashOutput {
	switch algorithm {
	case "sha384":
		sum := sha512.Sum384(text)
		return &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_384, Digest: sum[:]}
	case "sha512":
		sum := sha512.Sum512(text)
		return &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_512, Digest: sum[:]}
	default:
		sum := sha256.Sum256(text)
		return &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]}
	}
}
