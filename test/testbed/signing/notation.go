// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	"github.com/notaryproject/notation-go/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Notary signs with notation, by a certificate of an authority of its own.
type Notary struct {
	root  *x509.Certificate
	chain []*x509.Certificate
	key   *ecdsa.PrivateKey
}

// NewNotary returns a Notary whose signing certificate has a common name, and is
// good from two hours ago until a time.
func NewNotary(name string, until time.Time) (*Notary, error) {
	return NewNotaryWithRevocation(name, until)
}

// NewNotaryWithRevocation returns a Notary whose signing certificate names
// servers that tell whether it was revoked (OCSP).
func NewNotaryWithRevocation(name string, until time.Time, servers ...string) (*Notary, error) {
	rootKey, err := newKey()
	if err != nil {
		return nil, err
	}
	template := caTemplate("Test Notary", 1)
	root, err := certify(template, template, rootKey.Public(), rootKey)
	if err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	leaf, err := certify(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: notarySubject(name), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, BasicConstraintsValid: true, OCSPServer: servers,
	}, root, key.Public(), rootKey)
	if err != nil {
		return nil, err
	}
	return &Notary{root: root, chain: []*x509.Certificate{leaf, root}, key: key}, nil
}

// notarySubject has what a trusted identity must name at least: state and country
// and organization.
func notarySubject(name string) pkix.Name {
	return pkix.Name{CommonName: name, Organization: []string{"helmop"}, Province: []string{"BE"}, Country: []string{"CH"}}
}

// Subject returns the subject of the signing certificate, as a result shows it.
func (n *Notary) Subject() string { return n.chain[0].Subject.String() }

// Certificate returns the authority's certificate as PEM.
func (n *Notary) Certificate() []byte { return certificatePEM(n.root.Raw) }

// SigningCertificate returns the certificate that signs, as PEM.
func (n *Notary) SigningCertificate() []byte { return certificatePEM(n.chain[0].Raw) }

// TrustStatement is a statement of a trust policy, as in trustpolicy.json.
type TrustStatement struct {
	Name                  string         `json:"name"`
	RegistryScopes        []string       `json:"registryScopes"`
	SignatureVerification map[string]any `json:"signatureVerification"`
	TrustStores           []string       `json:"trustStores,omitempty"`
	TrustedIdentities     []string       `json:"trustedIdentities,omitempty"`
}

// TrustPolicy returns a trustpolicy.json.
func TrustPolicy(statements ...TrustStatement) ([]byte, error) {
	return json.Marshal(map[string]any{"version": "1.0", "trustPolicies": statements})
}

// TrustAnyone is a statement of a level for everything that a certificate of the
// store "ca:test" leads to.
func TrustAnyone(level string) TrustStatement {
	return TrustStatement{
		Name: "all", RegistryScopes: []string{"*"}, SignatureVerification: map[string]any{"level": level},
		TrustStores: []string{"ca:test"}, TrustedIdentities: []string{"*"},
	}
}

// The forms of notation's signatures.
const (
	TypeJWS  = jws.MediaTypeEnvelope
	TypeCOSE = cose.MediaTypeEnvelope

	typeNotationPayload = "application/vnd.cncf.notary.payload.v1+json"
)

// Envelope is how a signature by notation is made.
type Envelope struct {
	// Type is TypeJWS or TypeCOSE; empty is TypeJWS.
	Type string
	// At is when it is made; the zero time is now. Expires is when it ends to be
	// good; the zero time is never.
	At, Expires time.Time
}

// Envelope returns a signature of a manifest.
func (n *Notary) Envelope(desc ocispec.Descriptor, form Envelope) (Layer, error) {
	form.Type = cmp.Or(form.Type, TypeJWS)
	if form.At.IsZero() {
		form.At = time.Now()
	}
	signer, err := signature.NewLocalSigner(n.chain, n.key)
	if err != nil {
		return Layer{}, err
	}
	target := ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
	payload, err := json.Marshal(map[string]any{"targetArtifact": target})
	if err != nil {
		return Layer{}, err
	}
	envelope, err := signature.NewEnvelope(form.Type)
	if err != nil {
		return Layer{}, err
	}
	data, err := envelope.Sign(&signature.SignRequest{
		Payload: signature.Payload{ContentType: typeNotationPayload, Content: payload}, Signer: signer,
		SigningTime: form.At, Expiry: form.Expires, SigningScheme: signature.SigningSchemeX509, SigningAgent: "helmop-test",
	})
	if err != nil {
		return Layer{}, fmt.Errorf("sign with notation: %w", err)
	}
	return Layer{MediaType: form.Type, Data: data}, nil
}

// Sign pushes a signature of the artifact, as "notation sign" does.
func (n *Notary) Sign(ctx context.Context, a Artifact) error {
	desc, err := a.Descriptor(ctx)
	if err != nil {
		return err
	}
	layer, err := n.Envelope(desc, Envelope{})
	if err != nil {
		return err
	}
	return a.PushNotation(ctx, layer)
}

// PushNotation stores an envelope as notation does.
func (a Artifact) PushNotation(ctx context.Context, envelope Layer) error {
	return a.PushReferrer(ctx, Referrer{ConfigType: registry.ArtifactTypeNotation, Layers: []Layer{envelope}})
}

// Descriptor returns what notation signs of the artifact.
func (a Artifact) Descriptor(ctx context.Context) (ocispec.Descriptor, error) {
	return a.repository.Resolve(ctx, a.Digest())
}
