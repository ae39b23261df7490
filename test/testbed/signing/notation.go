/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package signing

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"time"

	"github.com/notaryproject/notation-core-go/signature/jws"
	"github.com/notaryproject/notation-go"
	"github.com/notaryproject/notation-go/registry"
	"github.com/notaryproject/notation-go/signer"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Notary signs with notation, by a certificate of an authority of its own.
type Notary struct {
	root  *x509.Certificate
	chain []*x509.Certificate
	key   *ecdsa.PrivateKey
}

// NewNotary returns a Notary whose signing certificate has a common name, and is
// good from an hour ago until a time.
func NewNotary(name string, until time.Time) (*Notary, error) {
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
		SerialNumber: big.NewInt(2), Subject: notarySubject(name), NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, BasicConstraintsValid: true,
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

// Envelope returns a signature of a manifest; expiry 0 is none.
func (n *Notary) Envelope(ctx context.Context, desc ocispec.Descriptor, expiry time.Duration) (Layer, error) {
	made, err := signer.NewGenericSigner(n.key, n.chain)
	if err != nil {
		return Layer{}, err
	}
	envelope, _, err := made.Sign(ctx, desc, notation.SignerSignOptions{SignatureMediaType: jws.MediaTypeEnvelope, ExpiryDuration: expiry})
	if err != nil {
		return Layer{}, err
	}
	return Layer{MediaType: jws.MediaTypeEnvelope, Data: envelope}, nil
}

// Sign pushes a signature of the artifact, as "notation sign" does.
func (n *Notary) Sign(ctx context.Context, a Artifact) error {
	desc, err := a.Descriptor(ctx)
	if err != nil {
		return err
	}
	layer, err := n.Envelope(ctx, desc, 0)
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
