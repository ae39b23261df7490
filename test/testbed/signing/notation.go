// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	"github.com/notaryproject/notation-go/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Notary signs with notation, with a certificate of its own authority.
type Notary struct{ root, signer *Certified }

// Services are the URLs in a certificate of the services that report whether it is revoked.
type Services struct {
	// OCSP are servers for single certificates. CRLs are lists of revoked certificates.
	OCSP, CRLs []string
}

// NewNotary returns a Notary with a common name. Its signing certificate is valid from two hours ago until a time. It
// names no service for its revocation.
func NewNotary(name string, until time.Time) *Notary {
	return NewRevocableNotary(name, until, Services{})
}

// NewRevocableNotary is like NewNotary, for a certificate that names services for its revocation.
func NewRevocableNotary(name string, until time.Time, services Services) *Notary {
	authority := newRoot("Test Notary")
	return &Notary{root: authority, signer: authority.issue(&x509.Certificate{
		Subject: notarySubject(name), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		OCSPServer: services.OCSP, CRLDistributionPoints: services.CRLs,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		BasicConstraintsValid: true,
	})}
}

// CRL returns a list of revoked certificates, which the authority signed. The list has the signing certificate if
// isRevoked is true.
func (n *Notary) CRL(isRevoked bool) []byte {
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour),
		NextUpdate: time.Now().Add(time.Hour)}
	if isRevoked {
		list.RevokedCertificateEntries = []x509.RevocationListEntry{
			{SerialNumber: n.signer.Certificate.SerialNumber, RevocationTime: time.Now().Add(-time.Hour)}}
	}
	return must(x509.CreateRevocationList(rand.Reader, list, n.root.Certificate, n.root.key))
}

// notarySubject has the parts that a trusted identity must name at least: country, state and organization.
func notarySubject(name string) pkix.Name {
	return pkix.Name{
		CommonName: name, Organization: []string{"helmop"}, Province: []string{"BE"}, Country: []string{"CH"},
	}
}

// Subject returns the subject of the signing certificate, as a result shows it.
func (n *Notary) Subject() string { return n.signer.Certificate.Subject.String() }

// Certificate returns the authority's certificate as PEM.
func (n *Notary) Certificate() []byte { return n.root.pem() }

// SigningCertificate returns the certificate that signs, as PEM.
func (n *Notary) SigningCertificate() []byte { return n.signer.pem() }

// TrustStatement is a statement of a trust policy, as in trustpolicy.json.
type TrustStatement struct {
	Name                  string         `json:"name"`
	RegistryScopes        []string       `json:"registryScopes"`
	SignatureVerification map[string]any `json:"signatureVerification"`
	TrustStores           []string       `json:"trustStores,omitempty"`
	TrustedIdentities     []string       `json:"trustedIdentities,omitempty"`
}

// TrustPolicy returns a trustpolicy.json.
func TrustPolicy(statements ...TrustStatement) []byte {
	return must(json.Marshal(map[string]any{"version": "1.0", "trustPolicies": statements}))
}

// TrustAnyone returns a statement of a level that trusts all signers with a certificate of the store "ca:test".
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

// Envelope is the form of a signature by notation.
type Envelope struct {
	// Type is TypeJWS or TypeCOSE. The default is TypeJWS.
	Type string
	// At is the time of the signature, by default now. Expires is the end of its validity, by default never.
	At, Expires time.Time
}

// Envelope returns a signature of a manifest.
func (n *Notary) Envelope(desc ocispec.Descriptor, form Envelope) Layer {
	form.Type = cmp.Or(form.Type, TypeJWS)
	if form.At.IsZero() {
		form.At = time.Now()
	}
	target := ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
	payload := must(json.Marshal(map[string]any{"targetArtifact": target}))
	chain := []*x509.Certificate{n.signer.Certificate, n.root.Certificate}
	data := must(must(signature.NewEnvelope(form.Type)).Sign(&signature.SignRequest{
		Payload:     signature.Payload{ContentType: typeNotationPayload, Content: payload},
		Signer:      must(signature.NewLocalSigner(chain, n.signer.key)),
		SigningTime: form.At, Expiry: form.Expires,
		SigningScheme: signature.SigningSchemeX509, SigningAgent: "helmop-test",
	}))
	return Layer{MediaType: form.Type, Data: data}
}

// Sign pushes a signature of the artifact, as "notation sign" does.
func (n *Notary) Sign(ctx context.Context, a Artifact) error {
	desc, err := a.Descriptor(ctx)
	if err != nil {
		return err
	}
	return a.PushNotation(ctx, n.Envelope(desc, Envelope{}))
}

// PushNotation stores an envelope as notation does.
func (a Artifact) PushNotation(ctx context.Context, envelope Layer) error {
	return a.PushReferrer(ctx, Referrer{ConfigType: registry.ArtifactTypeNotation, Layers: []Layer{envelope}})
}

// Descriptor returns the descriptor of the artifact, which notation signs.
func (a Artifact) Descriptor(ctx context.Context) (ocispec.Descriptor, error) {
	return a.repository.Resolve(ctx, a.Digest())
}
