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

// Provider is the kind of signatures that a policy asks for.
type Provider string

// The providers.
const (
	// Cosign stands for signatures of Sigstore's cosign, by key or keyless.
	Cosign Provider = "cosign"
	// Notation stands for signatures of the Notary Project's notation.
	Notation Provider = "notation"
)

// What a policy may have at most. A Secret holds 1 MiB.
const (
	maxPolicyBytes = 1 << 20
	maxKeys        = 64
	maxIdentities  = 64
	maxPattern     = 1024
	maxStatements  = 256
)

// Policy says whose signature makes an artifact trusted. The fields of the
// provider that is not chosen must be empty.
type Policy struct {
	// Provider is Cosign or Notation.
	Provider Provider

	// Keys are cosign's public keys as PEM, by the names that are shown for them.
	// A signature by any of them will do: ECDSA (P-256, P-384, P-521), RSA (2048,
	// 3072 or 4096 bits), Ed25519.
	Keys map[string][]byte
	// Identities are the signers of cosign's keyless signatures; any of them will
	// do, beside the keys if there are any. At least one is required where Keys
	// is empty.
	Identities []Identity
	// TrustedRoot is the trusted_root.json of the Sigstore that certified the
	// identities. Empty is the public Sigstore's, which is fetched from it.
	TrustedRoot []byte

	// TrustPolicy is notation's trustpolicy.json.
	TrustPolicy []byte
	// Certificates are the PEM certificates of notation's trust stores, by file
	// name. "TYPE.STORE.pem" (or .crt, .cer) is in that store only:
	// "tsa.acme.pem" in "tsa:acme". A file of any other name is in every store that
	// the trust policy names, but for timestamp authorities, which are no
	// signers. Names that are nearly of that form, "tsa-acme.pem" or "TSA.acme.pem",
	// are refused.
	Certificates map[string][]byte
}

// Identity is who may sign without a key. One of each pair is set. Patterns are
// RE2 expressions for the whole text, and must bind its domain, and the organization
// where many share a domain: what a stranger's identity would match is refused.
type Identity struct {
	// Issuer is the OpenID Connect issuer that vouched for the signer, exactly.
	Issuer, IssuerRegExp string
	// Subject is the signer as the certificate names it, exactly: an e-mail address
	// or the URI of a workflow, for example.
	Subject, SubjectRegExp string
}

// Validate returns nil if the policy can be used, and else an ErrInvalidPolicy.
// It makes no request.
func (p Policy) Validate() error {
	_, err := p.compile()
	return err
}

// Digest identifies the policy, keys and all: equal policies have equal digests.
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
	return "sha256:" + h.sum()
}

// newHash returns what identifies policies and verifications.
func newHash() hash.Hash { return sha256.New() }

// policyHash hashes parts with their lengths, so that no two policies run
// together.
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

// rules are a policy that has been read: one of the two is set.
type rules struct {
	cosign   *cosignRules
	notation *notationRules
}

// compile reads the policy. Errors are ErrInvalidPolicy.
func (p Policy) compile() (*rules, error) {
	size := len(p.TrustedRoot) + len(p.TrustPolicy)
	for _, files := range []map[string][]byte{p.Keys, p.Certificates} {
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
	default:
		return nil, invalidPolicy(fmt.Sprintf("unknown provider %q", clip(string(p.Provider))), `use "cosign" or "notation"`)
	}
}
