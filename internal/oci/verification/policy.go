// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// Provider is the kind of signatures that a policy requires.
type Provider string

// The providers.
const (
	// Cosign means signatures by Sigstore's cosign, with a key or keyless.
	Cosign Provider = "cosign"
	// Notation means signatures by the Notary Project's notation.
	Notation Provider = "notation"
	// HelmProvenance means Helm's provenance files in chart repositories, signed with OpenPGP.
	HelmProvenance Provider = "HelmProvenance"
)

// The limits of a policy. A Secret holds 1 MiB.
const (
	maxPolicyBytes = 1 << 20
	maxKeys        = 64
	maxIdentities  = 64
	maxPattern     = 1024
	maxStatements  = 256
)

// Policy defines which signers make an artifact trusted. The fields of other providers must be empty.
type Policy struct {
	// Provider is Cosign, Notation or HelmProvenance.
	Provider Provider

	// Keys are cosign's public keys as PEM, by display name. A signature by any key is sufficient.
	// Supported are ECDSA (P-256, P-384, P-521), RSA (2048, 3072 or 4096 bits) and Ed25519.
	Keys map[string][]byte
	// Identities are the signers of cosign's keyless signatures. A signature by any identity or key is
	// sufficient. At least one identity is required if Keys is empty.
	Identities []Identity
	// TrustedRoot is the trusted_root.json of the Sigstore that certified the identities. Empty means
	// the public Sigstore's root, which is downloaded.
	TrustedRoot []byte

	// TrustPolicy is notation's trustpolicy.json.
	TrustPolicy []byte
	// Certificates are the PEM certificates of notation's trust stores, by file name. "TYPE.STORE.pem" (or .crt, .cer) is
	// used for this store only: "tsa.acme.pem" for "tsa:acme". A file with another name is used for every store of signers
	// in the trust policy, but not for timestamp authorities. Names that nearly have this form, "tsa-acme.pem" or
	// "TSA.acme.pem", are refused.
	Certificates map[string][]byte

	// Keyrings are public keys of OpenPGP for HelmProvenance, binary or armored, by file name. A signature by any key is
	// sufficient.
	Keyrings map[string][]byte
}

// Identity is a keyless signer. Set one field of each pair. Patterns are RE2 expressions for the whole text. A pattern
// must fix the domain and, on a shared domain, the organization. A pattern that matches untrusted names is refused.
type Identity struct {
	// Issuer is the exact OpenID Connect issuer that authenticated the signer.
	Issuer, IssuerRegExp string
	// Subject is the exact signer in the certificate, for example an e-mail address or the URI of a
	// workflow.
	Subject, SubjectRegExp string
}

// Validate returns an ErrInvalidPolicy if the policy cannot be used. It makes no request.
func (p Policy) Validate() error {
	_, err := p.compile()
	return err
}

// Digest returns a digest of the whole policy, including its keys. Equal policies have equal
// digests.
func (p Policy) Digest() string {
	h := policyHash{newHash()}
	h.text("helmop verification policy 1", string(p.Provider))
	h.files(p.Keys)
	h.number(len(p.Identities))
	for _, identity := range p.Identities {
		h.text(identity.Issuer, identity.IssuerRegExp, identity.Subject, identity.SubjectRegExp)
	}
	h.text(string(p.TrustedRoot), string(p.TrustPolicy))
	h.files(p.Certificates)
	// Fields that later versions added count only if they are set: statuses contain digests from before.
	if len(p.Keyrings) > 0 {
		h.files(p.Keyrings)
	}
	return "sha256:" + h.sum()
}

// newHash returns the hash for the keys of policies and verifications.
func newHash() hash.Hash { return sha256.New() }

// policyHash hashes parts with their lengths, so that different policies have different hashes.
type policyHash struct{ hash.Hash }

func (h policyHash) number(n int) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(n))
	h.Write(length[:])
}

func (h policyHash) text(parts ...string) {
	for _, part := range parts {
		h.number(len(part))
		h.Write([]byte(part))
	}
}

func (h policyHash) sum() string { return hex.EncodeToString(h.Sum(nil)) }

func (h policyHash) files(files map[string][]byte) {
	h.number(len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h.text(name, string(files[name]))
	}
}

// rules are a compiled policy. Exactly one field is set.
type rules struct {
	cosign   *cosignRules
	notation *notationRules
	keyrings map[string][]byte
}

// compile parses the policy. Errors are ErrInvalidPolicy.
func (p Policy) compile() (*rules, error) {
	size := len(p.TrustedRoot) + len(p.TrustPolicy)
	for _, files := range []map[string][]byte{p.Keys, p.Certificates, p.Keyrings} {
		for name, data := range files {
			size += len(name) + len(data)
		}
	}
	if size > 2*maxPolicyBytes {
		return nil, invalidPolicy(fmt.Sprintf("it has %d bytes", size), fmt.Sprintf("give at most %d", 2*maxPolicyBytes))
	}
	switch p.Provider {
	case Cosign:
		if len(p.TrustPolicy) > 0 || len(p.Certificates) > 0 {
			return nil, invalidPolicy("a trust policy and certificates are for notation", "remove them, or choose notation")
		}
		compiled, err := p.compileCosign()
		return &rules{cosign: compiled}, err
	case Notation:
		if len(p.Keys) > 0 || len(p.Identities) > 0 || len(p.TrustedRoot) > 0 {
			return nil, invalidPolicy("keys, identities and a trusted root are for cosign", "remove them, or choose cosign")
		}
		compiled, err := p.compileNotation()
		return &rules{notation: compiled}, err
	case HelmProvenance:
		if len(p.Keyrings) == 0 {
			return nil, invalidPolicy("there are no public keys of OpenPGP",
				"put them into keys of the Secret that end with .gpg, .pgp or .asc")
		}
		return &rules{keyrings: p.Keyrings}, nil
	default:
		return nil, invalidPolicy(fmt.Sprintf("unknown provider %q", clip(string(p.Provider))),
			`use "cosign", "notation" or "HelmProvenance"`)
	}
}
