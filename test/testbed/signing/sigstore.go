// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"crypto"
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

// Sigstore is a private Sigstore: it certifies identities, and logs their signatures with the time. Its own
// certificates are valid from three hours ago for 27 hours.
type Sigstore struct {
	authority  *authority
	log        transparencyLog
	timestamps *timestampAuthority
}

// NewSigstore returns a Sigstore with new keys.
func NewSigstore() *Sigstore {
	return &Sigstore{
		authority: newAuthority(), log: transparencyLog{logKey{newKey()}}, timestamps: newTimestampAuthority(),
	}
}

// Trusts selects the services that a trusted root lists in addition to the certificate authority.
type Trusts struct{ Log, CertificateLog, Timestamps bool }

// TrustedRoot returns the trusted_root.json with all services.
func (s *Sigstore) TrustedRoot() []byte {
	return s.TrustedRootOf(Trusts{Log: true, CertificateLog: true, Timestamps: true})
}

// TrustedRootOf returns a trusted_root.json with some of the services.
func (s *Sigstore) TrustedRootOf(with Trusts) []byte {
	since := s.authority.root.Certificate.NotBefore
	var logs, certificateLogs map[string]*root.TransparencyLog
	var timestamps []root.TimestampingAuthority
	if with.Log {
		logs = s.log.trusted("https://"+logHost, since)
	}
	if with.CertificateLog {
		certificateLogs = s.authority.log.trusted("https://ct.test", since)
	}
	if with.Timestamps {
		timestamps = []root.TimestampingAuthority{s.timestamps.trusted()}
	}
	trusted := must(root.NewTrustedRoot(root.TrustedRootMediaType01,
		[]root.CertificateAuthority{s.authority.trusted()}, certificateLogs, timestamps, logs))
	return must(trusted.MarshalJSON())
}

// Certify returns a new key with a certificate that is valid for ten minutes from a time on. If unlogged is true, the
// certificate is not in the certificate log.
func (s *Sigstore) Certify(identity Identity, from time.Time, unlogged bool) *Certified {
	return s.authority.issue(identity, from, unlogged)
}

func (c *Certified) signer() signature.Signer {
	return must(signature.LoadECDSASigner(c.key, crypto.SHA256))
}

// Bundle returns a keyless bundle with a statement, without log entry and timestamp.
func (c *Certified) Bundle(statement []byte) *protobundle.Bundle {
	bundle := Bundle(statement, c.signer())
	bundle.VerificationMaterial.Content = &protobundle.VerificationMaterial_Certificate{
		Certificate: &protocommon.X509Certificate{RawBytes: c.Certificate.Raw},
	}
	return bundle
}

// Log adds an entry of the transparency log with a time to a keyless bundle with a statement, in the form of Rekor's
// version 1.
func (s *Sigstore) Log(bundle *protobundle.Bundle, at time.Time) {
	material := bundle.GetVerificationMaterial()
	certificate := cryptoutils.PEMEncode(cryptoutils.CertificatePEMType, material.GetCertificate().GetRawBytes())
	entry := s.log.statement(bundle.GetDsseEnvelope(), certificate, at)
	material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
}

// LogV2 is Log in the form of Rekor's version 2, which has no time.
func (s *Sigstore) LogV2(bundle *protobundle.Bundle) {
	bundle.VerificationMaterial.TlogEntries = []*protorekor.TransparencyLogEntry{s.log.statementV2(bundle)}
}

// Stamp adds a signed timestamp to a bundle with a statement.
func (s *Sigstore) Stamp(bundle *protobundle.Bundle, at time.Time) {
	stamp := s.timestamps.stamp(bundle.GetDsseEnvelope().GetSignatures()[0].GetSig(), at)
	bundle.VerificationMaterial.TimestampVerificationData = &protobundle.TimestampVerificationData{
		Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp}},
	}
}

// Legacy returns a keyless legacy signature of a claim, logged and stamped with a time.
func (s *Sigstore) Legacy(claim []byte, by *Certified, at time.Time) Layer {
	signed := must(by.signer().SignMessage(bytes.NewReader(claim)))
	entry := s.log.hashedRekord(claim, signed, by.pem(), at)
	logged := must(json.Marshal(map[string]any{
		"SignedEntryTimestamp": entry.GetInclusionPromise().GetSignedEntryTimestamp(), "Payload": payloadOf(entry),
	}))
	stamped := must(json.Marshal(map[string]any{"SignedRFC3161Timestamp": s.timestamps.stamp(signed, at)}))
	return Layer{MediaType: TypeSimpleSigning, Data: claim, Annotations: map[string]string{
		AnnotationSignature: base64.StdEncoding.EncodeToString(signed), AnnotationCertificate: string(by.pem()),
		AnnotationLog: string(logged), AnnotationTimestamp: string(stamped),
	}}
}

// SignKeyless pushes a legacy signature of the artifact by an identity, as "cosign sign" of versions 1 and 2 does.
func (s *Sigstore) SignKeyless(ctx context.Context, a Artifact, identity Identity) error {
	now := time.Now()
	return a.PushTag(ctx, s.Legacy(a.Claim(), s.Certify(identity, now.Add(-time.Minute), false), now))
}

// SignKeylessBundle pushes a bundle with a signature of the artifact by an identity, as "cosign sign" of version 3
// does.
func (s *Sigstore) SignKeylessBundle(ctx context.Context, a Artifact, identity Identity) error {
	now := time.Now()
	bundle := s.Certify(identity, now.Add(-time.Minute), false).Bundle(Statement(PredicateSign, a.Digest()))
	s.Log(bundle, now)
	return a.PushBundle(ctx, bundle)
}
