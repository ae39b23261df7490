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
	"net/url"
	"slices"
	"strings"
	"time"

	ct "github.com/google/certificate-transparency-go"
	cttls "github.com/google/certificate-transparency-go/tls"
	ctx509 "github.com/google/certificate-transparency-go/x509"
	ctx509util "github.com/google/certificate-transparency-go/x509util"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// These are the extensions with which a certificate names its issuer, see
// https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md, and the extensions of certificate logs.
var (
	oidIssuerV1 = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
	oidIssuerV2 = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
	oidPoison   = asn1.ObjectIdentifier(ctx509.OIDExtensionCTPoison)
	oidSCTs     = asn1.ObjectIdentifier(ctx509.OIDExtensionCTSCT)
)

// must returns the value. It panics on an error: values made in memory fail only for invalid arguments.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Certified is a key with its certificate.
type Certified struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

// newRoot returns a certificate authority.
func newRoot(name string) *Certified {
	self := &Certified{Certificate: authorityTemplate(name), key: newKey()}
	self.Certificate = self.certify(self.Certificate, self.key.Public())
	return self
}

// authorityTemplate is for a certificate authority that is valid from three hours ago for 27 hours.
func authorityTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name, Organization: []string{"helmop test"}},
		NotBefore: time.Now().Add(-3 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
	}
}

// certify signs a certificate for a public key.
func (c *Certified) certify(template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	der := must(x509.CreateCertificate(rand.Reader, template, c.Certificate, public, c.key))
	return must(x509.ParseCertificate(der))
}

// issue returns a new key with a certificate.
func (c *Certified) issue(template *x509.Certificate) *Certified {
	key := newKey()
	return &Certified{Certificate: c.certify(template, key.Public()), key: key}
}

func (c *Certified) pem() []byte {
	return cryptoutils.PEMEncode(cryptoutils.CertificatePEMType, c.Certificate.Raw)
}

// Identity is a signer without a key.
type Identity struct {
	// Issuer is an OpenID Connect issuer, Subject an e-mail address or a URI.
	Issuer, Subject string
}

// authority is a certificate authority like Fulcio, with its certificate log.
type authority struct {
	root, intermediate *Certified
	log                logKey
}

func newAuthority() *authority {
	template := authorityTemplate("Test Intermediate")
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	a := &authority{root: newRoot("Test Root"), log: logKey{newKey()}}
	a.intermediate = a.root.issue(template)
	return a
}

// issue certifies an identity for ten minutes from a time on. The certificate holds the certificate log's promise,
// unless unlogged is true.
func (a *authority) issue(identity Identity, from time.Time, unlogged bool) *Certified {
	plain := []pkix.Extension{
		{Id: oidIssuerV1, Value: []byte(identity.Issuer)},
		{Id: oidIssuerV2, Value: must(asn1.MarshalWithParams(identity.Issuer, "utf8"))},
	}
	template := &x509.Certificate{
		NotBefore: from, NotAfter: from.Add(10 * time.Minute), ExtraExtensions: plain,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if strings.Contains(identity.Subject, "://") {
		template.URIs = []*url.URL{must(url.Parse(identity.Subject))}
	} else {
		template.EmailAddresses = []string{identity.Subject}
	}
	if unlogged {
		return a.intermediate.issue(template)
	}
	poison := pkix.Extension{Id: oidPoison, Critical: true, Value: asn1.NullBytes}
	template.ExtraExtensions = append(slices.Clone(plain), poison)
	issued := a.intermediate.issue(template)
	// The log signs all of the certificate but the promise, with the serial number.
	template.SerialNumber = issued.Certificate.SerialNumber
	promise := pkix.Extension{Id: oidSCTs, Value: a.promise(issued.Certificate, from)}
	template.ExtraExtensions = append(slices.Clone(plain), promise)
	issued.Certificate = a.intermediate.certify(template, issued.key.Public())
	return issued
}

// promise returns the log's signed promise to publish a certificate (RFC 6962, section 3.2), as a certificate holds it.
func (a *authority) promise(precertificate *x509.Certificate, at time.Time) []byte {
	promise := ct.SignedCertificateTimestamp{
		SCTVersion: ct.V1, LogID: ct.LogID{KeyID: [sha256.Size]byte(a.log.id())}, Timestamp: uint64(at.UnixMilli()),
	}
	input := must(ct.SerializeSCTSignatureInput(promise, ct.LogEntry{Leaf: ct.MerkleTreeLeaf{
		Version: ct.V1, LeafType: ct.TimestampedEntryLeafType,
		TimestampedEntry: &ct.TimestampedEntry{
			Timestamp: promise.Timestamp, EntryType: ct.PrecertLogEntryType,
			PrecertEntry: &ct.PreCert{
				IssuerKeyHash:  sha256.Sum256(a.intermediate.Certificate.RawSubjectPublicKeyInfo),
				TBSCertificate: must(ctx509.RemoveCTPoison(precertificate.RawTBSCertificate)),
			},
		},
	}}))
	sum := sha256.Sum256(input)
	promise.Signature = ct.DigitallySigned{
		Algorithm: cttls.SignatureAndHashAlgorithm{Hash: cttls.SHA256, Signature: cttls.ECDSA},
		Signature: must(a.log.Sign(rand.Reader, sum[:], crypto.SHA256)),
	}
	list := must(ctx509util.MarshalSCTsIntoSCTList([]*ct.SignedCertificateTimestamp{&promise}))
	return must(asn1.Marshal(must(cttls.Marshal(*list))))
}

// trusted returns the authority as a trusted root lists it.
func (a *authority) trusted() root.CertificateAuthority {
	return &root.FulcioCertificateAuthority{
		Root: a.root.Certificate, Intermediates: []*x509.Certificate{a.intermediate.Certificate},
		URI:                 "https://fulcio.test",
		ValidityPeriodStart: a.root.Certificate.NotBefore, ValidityPeriodEnd: a.root.Certificate.NotAfter,
	}
}

// logKey is the key of a log. Its hash is the log's name.
type logKey struct{ *ecdsa.PrivateKey }

func (k logKey) id() []byte {
	sum := sha256.Sum256(must(x509.MarshalPKIXPublicKey(k.Public())))
	return sum[:]
}

// trusted returns the log as a trusted root lists it.
func (k logKey) trusted(url string, since time.Time) map[string]*root.TransparencyLog {
	return map[string]*root.TransparencyLog{hex.EncodeToString(k.id()): {
		BaseURL: url, ID: k.id(), ValidityPeriodStart: since, HashFunc: crypto.SHA256,
		PublicKey: k.Public(), SignatureHashFunc: crypto.SHA256,
	}}
}
