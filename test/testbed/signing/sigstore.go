// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Sigstore is a private Sigstore: it certifies identities, logs what they sign
// and when. Its certificates are good for a day.
type Sigstore struct {
	authority  *authority
	log        *transparencyLog
	timestamps *timestampAuthority
}

// NewSigstore returns a Sigstore with new keys.
func NewSigstore() (*Sigstore, error) {
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	timestamps, err := newTimestampAuthority()
	if err != nil {
		return nil, err
	}
	return &Sigstore{authority: authority, log: &transparencyLog{key: key}, timestamps: timestamps}, nil
}

// Trusts says which services are in a trusted root beside the certificate
// authority.
type Trusts struct{ Log, CertificateLog, Timestamps bool }

// TrustedRoot returns the trusted_root.json, with all services.
func (s *Sigstore) TrustedRoot() ([]byte, error) {
	return s.TrustedRootOf(Trusts{Log: true, CertificateLog: true, Timestamps: true})
}

// TrustedRootOf returns a trusted_root.json with some of the services.
func (s *Sigstore) TrustedRootOf(with Trusts) ([]byte, error) {
	authorities, certificateLogs, err := s.authority.trusted()
	if err != nil {
		return nil, err
	}
	if !with.CertificateLog {
		certificateLogs = nil
	}
	var logs map[string]*root.TransparencyLog
	if with.Log {
		if logs, err = s.log.trusted(s.authority.root.NotBefore); err != nil {
			return nil, err
		}
	}
	var timestamps []root.TimestampingAuthority
	if with.Timestamps {
		timestamps = s.timestamps.trusted()
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, authorities, certificateLogs, timestamps, logs)
	if err != nil {
		return nil, err
	}
	return trusted.MarshalJSON()
}

// Certified is an identity's key of the moment, with its certificate.
type Certified struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Certify issues a certificate that is good for ten minutes from a time on.
// Unlogged leaves the certificate log out.
func (s *Sigstore) Certify(identity Identity, from time.Time, unlogged bool) (*Certified, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	certificate, err := s.authority.issue(identity, key.Public(), from, unlogged)
	if err != nil {
		return nil, err
	}
	return &Certified{Certificate: certificate, key: key}, nil
}

func (c *Certified) signer() (signature.Signer, error) {
	return signature.LoadECDSASigner(c.key, crypto.SHA256)
}

// Bundle returns a keyless bundle with a statement, with neither log entry nor
// timestamp.
func (c *Certified) Bundle(statement []byte) (*protobundle.Bundle, error) {
	signer, err := c.signer()
	if err != nil {
		return nil, err
	}
	bundle, err := Bundle(statement, signer)
	if err != nil {
		return nil, err
	}
	bundle.VerificationMaterial.Content = &protobundle.VerificationMaterial_Certificate{
		Certificate: &protocommon.X509Certificate{RawBytes: c.Certificate.Raw},
	}
	return bundle, nil
}

// Log adds an entry of the transparency log to a keyless bundle with a
// statement, as made at a time, in the form of Rekor's version 1.
func (s *Sigstore) Log(bundle *protobundle.Bundle, at time.Time) error {
	material := bundle.GetVerificationMaterial()
	entry, err := s.log.statement(bundle.GetDsseEnvelope(), certificatePEM(material.GetCertificate().GetRawBytes()), at)
	if err != nil {
		return err
	}
	material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	return nil
}

// LogV2 is Log in the form of Rekor's version 2, which tells no time.
func (s *Sigstore) LogV2(bundle *protobundle.Bundle) error {
	entry, err := s.log.statementV2(bundle)
	if err != nil {
		return err
	}
	bundle.GetVerificationMaterial().TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	return nil
}

// Stamp adds a signed timestamp to a bundle with a statement.
func (s *Sigstore) Stamp(bundle *protobundle.Bundle, at time.Time) error {
	stamp, err := s.timestamps.stamp(bundle.GetDsseEnvelope().GetSignatures()[0].GetSig(), at)
	if err != nil {
		return err
	}
	bundle.GetVerificationMaterial().TimestampVerificationData = &protobundle.TimestampVerificationData{
		Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp}},
	}
	return nil
}

// Legacy returns a keyless legacy signature of a claim, logged and stamped at a
// time.
func (s *Sigstore) Legacy(claim []byte, by *Certified, at time.Time) (Layer, error) {
	signer, err := by.signer()
	if err != nil {
		return Layer{}, err
	}
	signed, err := signer.SignMessage(bytes.NewReader(claim))
	if err != nil {
		return Layer{}, err
	}
	certificate := certificatePEM(by.Certificate.Raw)
	entry, err := s.log.hashedRekord(claim, signed, certificate, at)
	if err != nil {
		return Layer{}, err
	}
	logged, err := json.Marshal(map[string]any{
		"SignedEntryTimestamp": entry.GetInclusionPromise().GetSignedEntryTimestamp(), "Payload": payloadOf(entry),
	})
	if err != nil {
		return Layer{}, err
	}
	stamp, err := s.timestamps.stamp(signed, at)
	if err != nil {
		return Layer{}, err
	}
	stamped, err := json.Marshal(map[string]any{"SignedRFC3161Timestamp": stamp})
	if err != nil {
		return Layer{}, err
	}
	return Layer{MediaType: TypeSimpleSigning, Data: claim, Annotations: map[string]string{
		AnnotationSignature: base64.StdEncoding.EncodeToString(signed), AnnotationCertificate: string(certificate),
		AnnotationLog: string(logged), AnnotationTimestamp: string(stamped),
	}}, nil
}

func certificatePEM(der []byte) []byte {
	return cryptoutils.PEMEncode(cryptoutils.CertificatePEMType, der)
}

// SignKeyless pushes a legacy signature of the artifact by an identity, as
// "cosign sign" of versions 1 and 2 does.
func (s *Sigstore) SignKeyless(ctx context.Context, a Artifact, identity Identity) error {
	now := time.Now()
	by, err := s.Certify(identity, now.Add(-time.Minute), false)
	if err != nil {
		return err
	}
	claim, err := a.Claim()
	if err != nil {
		return err
	}
	layer, err := s.Legacy(claim, by, now)
	if err != nil {
		return err
	}
	return a.PushTag(ctx, layer)
}

// SignKeylessBundle pushes a bundle with a signature of the artifact by an
// identity, as "cosign sign" of version 3 does.
func (s *Sigstore) SignKeylessBundle(ctx context.Context, a Artifact, identity Identity) error {
	now := time.Now()
	by, err := s.Certify(identity, now.Add(-time.Minute), false)
	if err != nil {
		return err
	}
	statement, err := Statement(PredicateSign, a.Digest())
	if err != nil {
		return err
	}
	bundle, err := by.Bundle(statement)
	if err != nil {
		return err
	}
	if err := s.Log(bundle, now); err != nil {
		return err
	}
	return a.PushBundle(ctx, bundle)
}
