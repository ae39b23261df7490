// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"

	ct "github.com/google/certificate-transparency-go"
	cttls "github.com/google/certificate-transparency-go/tls"
	ctx509 "github.com/google/certificate-transparency-go/x509"
	ctx509util "github.com/google/certificate-transparency-go/x509util"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// The extensions in which a certificate names its issuer, see
// https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md.
var (
	oidIssuerV1 = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
	oidIssuerV2 = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
	oidPoison   = asn1.ObjectIdentifier(ctx509.OIDExtensionCTPoison)
	oidSCTs     = asn1.ObjectIdentifier(ctx509.OIDExtensionCTSCT)
)

// Identity is a signer without a key.
type Identity struct {
	// Issuer is an OpenID Connect issuer, Subject an e-mail address or a URI.
	Issuer, Subject string
}

// authority is a certificate authority like Fulcio, with its certificate log.
type authority struct {
	root, intermediate *x509.Certificate
	key                *ecdsa.PrivateKey
	logKey             *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	rootKey, err := newKey()
	if err != nil {
		return nil, err
	}
	a := &authority{}
	template := caTemplate("Test Root", 1)
	if a.root, err = certify(template, template, rootKey.Public(), rootKey); err != nil {
		return nil, err
	}
	if a.key, err = newKey(); err != nil {
		return nil, err
	}
	template = caTemplate("Test Intermediate", 2)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	if a.intermediate, err = certify(template, a.root, a.key.Public(), rootKey); err != nil {
		return nil, err
	}
	a.logKey, err = newKey()
	return a, err
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func caTemplate(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name, Organization: []string{"helmop test"}},
		NotBefore: time.Now().Add(-3 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
	}
}

func certify(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// issue certifies that a key was an identity's for ten minutes from a time on,
// and puts the promise of the certificate log into the certificate unless
// unlogged.
func (a *authority) issue(identity Identity, public crypto.PublicKey, from time.Time, unlogged bool) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	issuer, err := asn1.MarshalWithParams(identity.Issuer, "utf8")
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: from, NotAfter: from.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: oidIssuerV1, Value: []byte(identity.Issuer)}, {Id: oidIssuerV2, Value: issuer}},
	}
	if strings.Contains(identity.Subject, "://") {
		uri, err := url.Parse(identity.Subject)
		if err != nil {
			return nil, err
		}
		template.URIs = []*url.URL{uri}
	} else {
		template.EmailAddresses = []string{identity.Subject}
	}
	if unlogged {
		return certify(template, a.intermediate, public, a.key)
	}
	plain := template.ExtraExtensions
	template.ExtraExtensions = append(plain[:len(plain):len(plain)], pkix.Extension{Id: oidPoison, Critical: true, Value: asn1.NullBytes})
	precertificate, err := certify(template, a.intermediate, public, a.key)
	if err != nil {
		return nil, err
	}
	promise, err := a.logged(precertificate, from)
	if err != nil {
		return nil, err
	}
	template.ExtraExtensions = append(plain[:len(plain):len(plain)], pkix.Extension{Id: oidSCTs, Value: promise})
	return certify(template, a.intermediate, public, a.key)
}

// logged returns the log's signed promise to publish a certificate (RFC 6962,
// section 3.2), as it stands in the certificate.
func (a *authority) logged(precertificate *x509.Certificate, at time.Time) ([]byte, error) {
	tbs, err := ctx509.RemoveCTPoison(precertificate.RawTBSCertificate)
	if err != nil {
		return nil, fmt.Errorf("log a certificate: %w", err)
	}
	id, err := logID(a.logKey.Public())
	if err != nil {
		return nil, err
	}
	promise := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, LogID: ct.LogID{KeyID: [sha256.Size]byte(id)}, Timestamp: uint64(at.UnixMilli())}
	input, err := ct.SerializeSCTSignatureInput(promise, ct.LogEntry{Leaf: ct.MerkleTreeLeaf{
		Version: ct.V1, LeafType: ct.TimestampedEntryLeafType,
		TimestampedEntry: &ct.TimestampedEntry{
			Timestamp: promise.Timestamp, EntryType: ct.PrecertLogEntryType,
			PrecertEntry: &ct.PreCert{IssuerKeyHash: sha256.Sum256(a.intermediate.RawSubjectPublicKeyInfo), TBSCertificate: tbs},
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("log a certificate: %w", err)
	}
	sum := sha256.Sum256(input)
	signed, err := a.logKey.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	promise.Signature = ct.DigitallySigned{Algorithm: cttls.SignatureAndHashAlgorithm{Hash: cttls.SHA256, Signature: cttls.ECDSA}, Signature: signed}
	list, err := ctx509util.MarshalSCTsIntoSCTList([]*ct.SignedCertificateTimestamp{&promise})
	if err != nil {
		return nil, fmt.Errorf("log a certificate: %w", err)
	}
	data, err := cttls.Marshal(*list)
	if err != nil {
		return nil, fmt.Errorf("log a certificate: %w", err)
	}
	return asn1.Marshal(data)
}

// logID returns the hash of a key by which a log is known.
func logID(public crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

// trusted returns the authority and its log as a trusted root has them.
func (a *authority) trusted() ([]root.CertificateAuthority, map[string]*root.TransparencyLog, error) {
	id, err := logID(a.logKey.Public())
	if err != nil {
		return nil, nil, err
	}
	logs := map[string]*root.TransparencyLog{hex.EncodeToString(id): {
		BaseURL: "https://ct.test", ID: id, ValidityPeriodStart: a.root.NotBefore, HashFunc: crypto.SHA256,
		PublicKey: a.logKey.Public(), SignatureHashFunc: crypto.SHA256,
	}}
	return []root.CertificateAuthority{&root.FulcioCertificateAuthority{
		Root: a.root, Intermediates: []*x509.Certificate{a.intermediate}, URI: "https://fulcio.test",
		ValidityPeriodStart: a.root.NotBefore, ValidityPeriodEnd: a.root.NotAfter,
	}}, logs, nil
}
