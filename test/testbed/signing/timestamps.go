// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"
)

var (
	oidExtKeyUsage  = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidTimestamping = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}
	oidTestPolicy   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}
)

// timestampAuthority signs what time it is (RFC 3161).
type timestampAuthority struct {
	root, certificate *x509.Certificate
	key               *ecdsa.PrivateKey
}

func newTimestampAuthority() (*timestampAuthority, error) {
	rootKey, err := newKey()
	if err != nil {
		return nil, err
	}
	a := &timestampAuthority{}
	template := caTemplate("Test Timestamps", 1)
	if a.root, err = certify(template, template, rootKey.Public(), rootKey); err != nil {
		return nil, err
	}
	if a.key, err = newKey(); err != nil {
		return nil, err
	}
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{oidTimestamping})
	if err != nil {
		return nil, err
	}
	a.certificate, err = certify(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Test Timestamp"},
		NotBefore: a.root.NotBefore, NotAfter: a.root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		// Authorities must have this usage only, and mark it as critical.
		ExtraExtensions: []pkix.Extension{{Id: oidExtKeyUsage, Critical: true, Value: usage}},
	}, a.root, a.key.Public(), rootKey)
	return a, err
}

// stamp signs that something was there at a time.
func (a *timestampAuthority) stamp(data []byte, at time.Time) ([]byte, error) {
	query, err := timestamp.CreateRequest(bytes.NewReader(data), &timestamp.RequestOptions{Hash: crypto.SHA256})
	if err != nil {
		return nil, err
	}
	request, err := timestamp.ParseRequest(query)
	if err != nil {
		return nil, err
	}
	answer := timestamp.Timestamp{
		HashAlgorithm: request.HashAlgorithm, HashedMessage: request.HashedMessage, Time: at, Policy: oidTestPolicy,
	}
	return answer.CreateResponseWithOpts(a.certificate, a.key, crypto.SHA256)
}

// trusted returns the authority as a trusted root has it.
func (a *timestampAuthority) trusted() []root.TimestampingAuthority {
	return []root.TimestampingAuthority{&root.SigstoreTimestampingAuthority{
		Root: a.root, Leaf: a.certificate, ValidityPeriodStart: a.root.NotBefore, ValidityPeriodEnd: a.root.NotAfter, URI: "https://tsa.test",
	}}
}
