// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"google.golang.org/protobuf/encoding/protojson"
)

// How cosign marks its signatures.
const (
	TypeBundle        = "application/vnd.dev.sigstore.bundle.v0.3+json"
	TypeLegacy        = "application/vnd.dev.cosign.artifact.sig.v1+json"
	TypeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	// PredicateSign is what cosign states of what it signs.
	PredicateSign = "https://sigstore.dev/cosign/sign/v1"

	AnnotationSignature   = "dev.cosignproject.cosign/signature"
	AnnotationCertificate = "dev.sigstore.cosign/certificate"
	AnnotationLog         = "dev.sigstore.cosign/bundle"
	AnnotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
	AnnotationPredicate   = "dev.sigstore.bundle.predicateType"

	typeStatement = "application/vnd.in-toto+json"
)

// Signer signs with a key as cosign does today.
func Signer(key crypto.PrivateKey) (signature.Signer, error) {
	return signature.LoadDefaultSigner(key)
}

// PublicKey returns a key's public part as PEM, as in cosign.pub.
func PublicKey(key crypto.Signer) ([]byte, error) {
	return cryptoutils.MarshalPublicKeyToPEM(key.Public())
}

// Claim returns what a legacy signature signs.
func Claim(repository, dgst string) ([]byte, error) {
	claim := payload.SimpleContainerImage{Critical: payload.Critical{Type: payload.CosignSignatureType}}
	claim.Critical.Identity.DockerReference = repository
	claim.Critical.Image.DockerManifestDigest = dgst
	return json.Marshal(claim)
}

// Claim returns what a legacy signature of the artifact signs.
func (a Artifact) Claim() ([]byte, error) {
	return Claim(a.repository.Reference.Registry+"/"+a.repository.Reference.Repository, a.Digest())
}

// Legacy returns a legacy signature of a claim by a key.
func Legacy(claim []byte, signer signature.Signer) (Layer, error) {
	signed, err := signer.SignMessage(bytes.NewReader(claim))
	if err != nil {
		return Layer{}, fmt.Errorf("sign the claim: %w", err)
	}
	return Layer{MediaType: TypeSimpleSigning, Data: claim, Annotations: map[string]string{
		AnnotationSignature: base64.StdEncoding.EncodeToString(signed),
	}}, nil
}

// Statement returns what a bundle signs: a statement of a type about a digest.
func Statement(predicateType, dgst string) ([]byte, error) {
	algorithm, encoded, _ := strings.Cut(dgst, ":")
	return json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"name": "", "digest": map[string]string{algorithm: encoded}}},
		"predicateType": predicateType,
		"predicate":     map[string]any{},
	})
}

// Bundle returns a bundle with a statement signed by a key, of which it says
// nothing but a hint.
func Bundle(statement []byte, signer signature.Signer) (*protobundle.Bundle, error) {
	signed, err := signer.SignMessage(bytes.NewReader(dsse.PAE(typeStatement, statement)))
	if err != nil {
		return nil, fmt.Errorf("sign the statement: %w", err)
	}
	return &protobundle.Bundle{
		MediaType: TypeBundle,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "test"}},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: statement, PayloadType: typeStatement, Signatures: []*protodsse.Signature{{Sig: signed}},
		}},
	}, nil
}

// BundleReferrer returns the manifest in which cosign stores a bundle.
func BundleReferrer(bundle *protobundle.Bundle) (Referrer, error) {
	data, err := protojson.Marshal(bundle)
	if err != nil {
		return Referrer{}, err
	}
	referrer := Referrer{
		ArtifactType: TypeBundle,
		Annotations:  map[string]string{"dev.sigstore.bundle.content": "message-signature"},
		Layers:       []Layer{{MediaType: TypeBundle, Data: data}},
	}
	if envelope := bundle.GetDsseEnvelope(); envelope != nil {
		var statement struct {
			PredicateType string `json:"predicateType"`
		}
		if err := json.Unmarshal(envelope.GetPayload(), &statement); err != nil {
			return Referrer{}, err
		}
		referrer.Annotations = map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", AnnotationPredicate: statement.PredicateType}
	}
	return referrer, nil
}

// SignKeyed pushes a legacy signature of the artifact by a key, as
// "cosign sign --key" of versions 1 and 2 does.
func (a Artifact) SignKeyed(ctx context.Context, key crypto.PrivateKey) error {
	signer, err := Signer(key)
	if err != nil {
		return err
	}
	claim, err := a.Claim()
	if err != nil {
		return err
	}
	layer, err := Legacy(claim, signer)
	if err != nil {
		return err
	}
	return a.PushTag(ctx, layer)
}

// SignKeyedBundle pushes a bundle with a signature of the artifact by a key, as
// "cosign sign --key" of version 3 does.
func (a Artifact) SignKeyedBundle(ctx context.Context, key crypto.PrivateKey) error {
	signer, err := Signer(key)
	if err != nil {
		return err
	}
	statement, err := Statement(PredicateSign, a.Digest())
	if err != nil {
		return err
	}
	bundle, err := Bundle(statement, signer)
	if err != nil {
		return err
	}
	return a.PushBundle(ctx, bundle)
}

// PushBundle stores a bundle as cosign does.
func (a Artifact) PushBundle(ctx context.Context, bundle *protobundle.Bundle) error {
	referrer, err := BundleReferrer(bundle)
	if err != nil {
		return err
	}
	return a.PushReferrer(ctx, referrer)
}
