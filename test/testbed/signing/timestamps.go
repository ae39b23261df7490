// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"
)

var (
	oidExtKeyUsage  = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidTimestamping = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}
	oidTestPolicy   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}
)

// timestampAuthority signs the time of data (RFC 3161).
type timestampAuthority struct{ root, signer *Certified }

func newTimestampAuthority() *timestampAuthority {
	authority := newRoot("Test Timestamps")
	return &timestampAuthority{root: authority, signer: authority.issue(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "Test Timestamp"},
		NotBefore: authority.Certificate.NotBefore, NotAfter: authority.Certificate.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature,
		// A timestamp authority must have this usage only, and mark it as critical.
		ExtraExtensions: []pkix.Extension{{
			Id: oidExtKeyUsage, Critical: true, Value: must(asn1.Marshal([]asn1.ObjectIdentifier{oidTimestamping})),
		}},
	})}
}

// stamp signs that data existed at a time.
func (a *timestampAuthority) stamp(data []byte, at time.Time) []byte {
	sum := sha256.Sum256(data)
	stamp := timestamp.Timestamp{HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Time: at, Policy: oidTestPolicy}
	return must(stamp.CreateResponseWithOpts(a.signer.Certificate, a.signer.key, crypto.SHA256))
}

// trusted returns the authority as a trusted root lists it.
func (a *timestampAuthority) trusted() root.TimestampingAuthority {
	return &root.SigstoreTimestampingAuthority{
		Root: a.root.Certificate, Leaf: a.signer.Certificate, URI: "https://tsa.test",
		ValidityPeriodStart: a.root.Certificate.NotBefore, ValidityPeriodEnd: a.root.Certificate.NotAfter,
	}
}
