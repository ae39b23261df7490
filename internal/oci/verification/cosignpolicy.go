// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// cosignRules are a policy for cosign signatures. At least one of keys and identities is not empty.
type cosignRules struct {
	keys       []namedKey
	identities verify.CertificateIdentities
	// root is nil for the public Sigstore's root.
	root *root.TrustedRoot
}

// namedKey is a public key with a verifier for each algorithm that cosign uses with its kind. It
// implements signature.Verifier.
type namedKey struct {
	name      string
	public    crypto.PublicKey
	verifiers []signature.Verifier
}

// signer returns the key in the form of Result.Signers.
func (k namedKey) signer() string { return "key " + k.name }

// PublicKey implements signature.PublicKeyProvider.
func (k namedKey) PublicKey(...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return k.public, nil
}

// VerifySignature returns nil if one of the verifiers accepts the signature.
func (k namedKey) VerifySignature(sig, message io.Reader, opts ...signature.VerifyOption) error {
	sigBytes, err := io.ReadAll(sig)
	if err != nil {
		return err
	}
	messageBytes, err := io.ReadAll(message)
	if err != nil {
		return err
	}
	for _, verifier := range k.verifiers {
		if err = verifier.VerifySignature(bytes.NewReader(sigBytes), bytes.NewReader(messageBytes), opts...); err == nil {
			return nil
		}
	}
	return err
}

func (p Policy) compileCosign() (*cosignRules, error) {
	switch {
	case len(p.Keys) == 0 && len(p.Identities) == 0:
		return nil, invalidPolicy("it names no signer", "give public keys, or the identities of keyless signers")
	case len(p.Keys) > maxKeys || len(p.Identities) > maxIdentities:
		return nil, invalidPolicy("it has too many keys or identities",
			fmt.Sprintf("use at most %d keys and %d identities", maxKeys, maxIdentities))
	case len(p.TrustedRoot) > 0 && len(p.Identities) == 0:
		return nil, invalidPolicy("a trusted root is for keyless signatures",
			"give the identities of keyless signers, or remove the trusted root")
	}
	out := &cosignRules{}
	for _, name := range slices.Sorted(maps.Keys(p.Keys)) {
		key, err := parseKey(name, p.Keys[name])
		if err != nil {
			return nil, err
		}
		out.keys = append(out.keys, key)
	}
	for i, identity := range p.Identities {
		compiled, err := identity.compile(i)
		if err != nil {
			return nil, err
		}
		out.identities = append(out.identities, compiled)
	}
	if len(p.TrustedRoot) > 0 {
		var err error
		if out.root, err = parseTrustedRoot(p.TrustedRoot); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseKey parses a public key. Errors contain its name, but not its content.
func parseKey(name string, data []byte) (namedKey, error) {
	public, err := cryptoutils.UnmarshalPEMToPublicKey(data)
	if err != nil {
		return namedKey{}, invalidPolicy(fmt.Sprintf("key %q is not a public key as PEM", clip(name)),
			`it must begin with "-----BEGIN PUBLIC KEY-----", as the cosign.pub of cosign does`)
	}
	key := namedKey{name: name, public: public}
	if err := checkKey(public); err != "" {
		return namedKey{}, invalidPolicy(fmt.Sprintf("key %q %s", clip(name), err),
			"use ECDSA P-256, P-384 or P-521, RSA of 2048, 3072 or 4096 bits, or Ed25519")
	}
	for _, option := range signatureOptions(public) {
		verifier, err := signature.LoadVerifierWithOpts(public, option)
		if err != nil {
			return namedKey{}, invalidPolicy(fmt.Sprintf("key %q is of an unsupported kind", clip(name)),
				"use ECDSA, RSA or Ed25519")
		}
		key.verifiers = append(key.verifiers, verifier)
	}
	return key, nil
}

// checkKey returns why a key is not supported; empty if it is supported.
func checkKey(public crypto.PublicKey) string {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if !slices.Contains([]elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}, key.Curve) {
			return "is on a curve that is not supported"
		}
	case *rsa.PublicKey:
		if !slices.Contains([]int{2048, 3072, 4096}, key.N.BitLen()) {
			return fmt.Sprintf("has %d bits", key.N.BitLen())
		}
	case ed25519.PublicKey:
	default:
		return "is of a kind that is not supported"
	}
	return ""
}

// signatureOptions returns the algorithms that versions of cosign use with a kind of key. Early versions hash with
// SHA-256 for every curve. Later versions use the hash that fits the curve. Ed25519 is used plainly, or as Ed25519ph
// for transparency logs that need a hash. With any of these algorithms, a signature proves that the holder of the key
// signed.
func signatureOptions(public crypto.PublicKey) []signature.LoadOption {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		hashes := []signature.LoadOption{options.WithHash(crypto.SHA256)}
		switch key.Curve {
		case elliptic.P384():
			hashes = append(hashes, options.WithHash(crypto.SHA384))
		case elliptic.P521():
			hashes = append(hashes, options.WithHash(crypto.SHA512))
		}
		return hashes
	case ed25519.PublicKey:
		return []signature.LoadOption{options.WithHash(crypto.Hash(0)), options.WithED25519ph()}
	default:
		return []signature.LoadOption{options.WithHash(crypto.SHA256)}
	}
}

// parseTrustedRoot parses the trusted_root.json of a policy.
func parseTrustedRoot(data []byte) (*root.TrustedRoot, error) {
	const hint = "use the trusted_root.json of your Sigstore instance, as \"cosign trusted-root create\" writes it"
	parsed, err := root.NewTrustedRootFromJSON(data)
	if err != nil {
		return nil, invalidPolicy("the trusted root is not a trusted_root.json", hint)
	}
	if detail := checkTrustedRoot(parsed); detail != "" {
		return nil, invalidPolicy("the trusted root "+detail, hint)
	}
	return parsed, nil
}

// checkTrustedRoot returns what a root lacks for the verification of signatures; empty if it lacks nothing.
func checkTrustedRoot(material root.TrustedMaterial) string {
	switch {
	case len(material.FulcioCertificateAuthorities()) == 0:
		return "has no certificate authority"
	case len(material.RekorLogs()) == 0 && len(material.TimestampingAuthorities()) == 0:
		return "has neither a transparency log nor a timestamp authority, so it cannot prove when a signature was made"
	}
	return ""
}
