// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
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
	// PredicateSign is the type of cosign's statement that an artifact is signed.
	PredicateSign = "https://sigstore.dev/cosign/sign/v1"

	AnnotationSignature   = "dev.cosignproject.cosign/signature"
	AnnotationCertificate = "dev.sigstore.cosign/certificate"
	AnnotationLog         = "dev.sigstore.cosign/bundle"
	AnnotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
	AnnotationPredicate   = "dev.sigstore.bundle.predicateType"

	typeStatement = "application/vnd.in-toto+json"
)

// Signer signs with a key as cosign does today.
func Signer(key crypto.PrivateKey) signature.Signer { return must(signature.LoadDefaultSigner(key)) }

// PublicKey returns a key's public part as PEM, as in cosign.pub.
func PublicKey(key crypto.Signer) []byte {
	return must(cryptoutils.MarshalPublicKeyToPEM(key.Public()))
}

// Claim returns the text that a legacy signature signs.
func Claim(repository, dgst string) []byte {
	claim := payload.SimpleContainerImage{Critical: payload.Critical{Type: payload.CosignSignatureType}}
	claim.Critical.Identity.DockerReference = repository
	claim.Critical.Image.DockerManifestDigest = dgst
	return must(json.Marshal(claim))
}

// Claim returns the text that a legacy signature of the artifact signs.
func (a Artifact) Claim() []byte {
	return Claim(a.repository.Reference.Registry+"/"+a.repository.Reference.Repository, a.Digest())
}

// Legacy returns a legacy signature of a claim by a key.
func Legacy(claim []byte, signer signature.Signer) Layer {
	signed := must(signer.SignMessage(bytes.NewReader(claim)))
	return Layer{MediaType: TypeSimpleSigning, Data: claim, Annotations: map[string]string{
		AnnotationSignature: base64.StdEncoding.EncodeToString(signed),
	}}
}

// Statement returns the text that a bundle signs: a statement of a type about a digest.
func Statement(predicateType, dgst string) []byte {
	algorithm, encoded, _ := strings.Cut(dgst, ":")
	return must(json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"name": "", "digest": map[string]string{algorithm: encoded}}},
		"predicateType": predicateType,
		"predicate":     map[string]any{},
	}))
}

// Bundle returns a bundle with a statement signed by a key. The bundle does not contain the key, but only a hint.
func Bundle(statement []byte, signer signature.Signer) *protobundle.Bundle {
	signed := must(signer.SignMessage(bytes.NewReader(dsse.PAE(typeStatement, statement))))
	return &protobundle.Bundle{
		MediaType: TypeBundle,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_PublicKey{
				PublicKey: &protocommon.PublicKeyIdentifier{Hint: "test"},
			},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: statement, PayloadType: typeStatement, Signatures: []*protodsse.Signature{{Sig: signed}},
		}},
	}
}

// BundleReferrer returns the manifest in which cosign stores a bundle. A statement in the bundle must be JSON.
func BundleReferrer(bundle *protobundle.Bundle) Referrer {
	referrer := Referrer{
		ArtifactType: TypeBundle,
		Annotations:  map[string]string{"dev.sigstore.bundle.content": "message-signature"},
		Layers:       []Layer{{MediaType: TypeBundle, Data: must(protojson.Marshal(bundle))}},
	}
	if envelope := bundle.GetDsseEnvelope(); envelope != nil {
		var statement map[string]any
		if err := json.Unmarshal(envelope.GetPayload(), &statement); err != nil {
			panic(err)
		}
		referrer.Annotations = map[string]string{
			"dev.sigstore.bundle.content": "dsse-envelope", AnnotationPredicate: statement["predicateType"].(string),
		}
	}
	return referrer
}

// SignKeyed pushes a legacy signature of the artifact by a key, as "cosign sign --key" of versions 1 and 2 does.
func (a Artifact) SignKeyed(ctx context.Context, key crypto.PrivateKey) error {
	return a.PushTag(ctx, Legacy(a.Claim(), Signer(key)))
}

// SignKeyedBundle pushes a bundle with a signature of the artifact by a key, as "cosign sign --key" of version 3 does.
func (a Artifact) SignKeyedBundle(ctx context.Context, key crypto.PrivateKey) error {
	return a.PushBundle(ctx, Bundle(Statement(PredicateSign, a.Digest()), Signer(key)))
}

// PushBundle stores a bundle as cosign does. A statement in the bundle must be JSON.
func (a Artifact) PushBundle(ctx context.Context, bundle *protobundle.Bundle) error {
	return a.PushReferrer(ctx, BundleReferrer(bundle))
}
