// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// These media types and types are defined by the format.
const (
	// BundleMediaType is the media type of a bundle.
	BundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// StatementMediaType is the media type of a signed statement.
	StatementMediaType = "application/vnd.in-toto+json"
	// StatementType is the type of a statement.
	StatementType = "https://in-toto.io/Statement/v1"
	// SignPredicate is the predicate type of a statement that only names the signed artifact.
	SignPredicate = "https://sigstore.dev/cosign/sign/v1"
)

// Manifest returns a bundle with a signature of a manifest.
func Manifest(key crypto.PrivateKey, subject ocispec.Descriptor) (*protobundle.Bundle, error) {
	statement, err := Statement(subject)
	if err != nil {
		return nil, err
	}
	return Attestation(key, statement)
}

// Statement returns the statement about a manifest that Manifest signs.
func Statement(subject ocispec.Descriptor) ([]byte, error) {
	return StatementWith(subject, SignPredicate, json.RawMessage("{}"))
}

// StatementWith returns a statement with a predicate, a JSON document, about a manifest.
func StatementWith(subject ocispec.Descriptor, predicateType string, predicate json.RawMessage) ([]byte, error) {
	return json.Marshal(map[string]any{
		"_type": StatementType,
		"subject": []any{
			map[string]any{"digest": map[string]string{subject.Digest.Algorithm().String(): subject.Digest.Encoded()}},
		},
		"predicateType": predicateType,
		"predicate":     predicate,
	})
}

// Attestation returns a bundle with a signed statement. statement is the JSON of an in-toto statement.
func Attestation(key crypto.PrivateKey, statement []byte) (*protobundle.Bundle, error) {
	bundle, signer, err := unsigned(key)
	if err != nil {
		return nil, err
	}
	signed, err := signer.SignMessage(bytes.NewReader(dsse.PAE(StatementMediaType, statement)))
	if err != nil {
		return nil, err
	}
	bundle.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		Payload: statement, PayloadType: StatementMediaType, Signatures: []*protodsse.Signature{{Sig: signed}},
	}}
	return bundle, nil
}

// File returns a bundle with a signature of the bytes of a file, like "cosign sign-blob".
func File(key crypto.PrivateKey, data []byte) (*protobundle.Bundle, error) {
	bundle, signer, err := unsigned(key)
	if err != nil {
		return nil, err
	}
	signed, err := signer.SignMessage(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	bundle.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
		MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
		Signature:     signed,
	}}
	return bundle, nil
}

// unsigned returns a bundle that names the key, and a signer that uses the key.
func unsigned(key crypto.PrivateKey) (*protobundle.Bundle, signature.Signer, error) {
	signer, err := signature.LoadDefaultSigner(key)
	if err != nil {
		return nil, nil, err
	}
	public, err := signer.PublicKey()
	if err != nil {
		return nil, nil, err
	}
	hint, err := cryptoutils.SKID(public)
	if err != nil {
		return nil, nil, err
	}
	return &protobundle.Bundle{
		MediaType: BundleMediaType,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_PublicKey{
				PublicKey: &protocommon.PublicKeyIdentifier{Hint: fmt.Sprintf("%x", hint)},
			},
		},
	}, signer, nil
}
