// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/notaryproject/notation-go/verifier/truststore"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// maxCertificates bounds the certificates of one file of a trust store.
const maxCertificates = 64

// notationRules are a policy for notation's signatures.
type notationRules struct {
	document *trustpolicy.Document
	stores   trustStores
}

func (p Policy) compileNotation() (*notationRules, error) {
	const hint = "give a trustpolicy.json of version 1.0, see " +
		"https://notaryproject.dev/docs/user-guides/how-to/manage-trust-policy/"
	document := &trustpolicy.Document{}
	if json.Unmarshal(p.TrustPolicy, document) != nil {
		return nil, invalidPolicy("the trust policy is not JSON of the right form", hint)
	}
	if len(document.TrustPolicies) > maxStatements {
		return nil, invalidPolicy("the trust policy has too many statements", fmt.Sprintf("give at most %d", maxStatements))
	}
	if err := document.Validate(); err != nil {
		return nil, invalidPolicy(clip(err.Error()), hint)
	}
	files, err := parseCertificates(p.Certificates)
	if err != nil {
		return nil, err
	}
	stores := trustStores{}
	proves := false
	for i := range document.TrustPolicies {
		statement := &document.TrustPolicies[i]
		if statement.SignatureVerification.VerificationLevel == trustpolicy.LevelSkip.Name {
			continue
		}
		proves = true
		enforceAuthenticity(&statement.SignatureVerification)
		for _, store := range statement.TrustStores {
			if stores[store] = files.of(store); len(stores[store]) == 0 {
				return nil, invalidPolicy(fmt.Sprintf("trust store %q of statement %q has no certificate", clip(store),
					clip(statement.Name)),
					fmt.Sprintf("add one named %q", strings.Replace(store, ":", ".", 1)+".pem"))
			}
		}
	}
	if !proves {
		return nil, invalidPolicy(`every statement of the trust policy has the level "skip", which disables verification`,
			`use "strict", or remove spec.source.verify`)
	}
	return &notationRules{document: document, stores: stores}, nil
}

// enforceAuthenticity makes a signature by a stranger fail at every level. The
// levels "audit" and the like only log it; and they would go on to ask the
// revocation services that the stranger's certificate names.
func enforceAuthenticity(verification *trustpolicy.SignatureVerification) {
	override := maps.Clone(verification.Override)
	if override == nil {
		override = map[trustpolicy.ValidationType]trustpolicy.ValidationAction{}
	}
	override[trustpolicy.TypeAuthenticity] = trustpolicy.ActionEnforce
	verification.Override = override
}

// certificateFiles are certificates by the name of their file, without the
// extension.
type certificateFiles map[string][]*x509.Certificate

// parseCertificates reads the certificates of a policy. Errors name the file.
func parseCertificates(files map[string][]byte) (certificateFiles, error) {
	out := certificateFiles{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		certificates, err := cryptoutils.UnmarshalCertificatesFromPEMLimited(files[name], maxCertificates)
		if err != nil || len(certificates) == 0 {
			return nil, invalidPolicy(fmt.Sprintf("certificate %q is not a certificate as PEM", clip(name)),
				`it must begin with "-----BEGIN CERTIFICATE-----"`)
		}
		if err := truststore.ValidateCertificates(certificates); err != nil {
			return nil, invalidPolicy(fmt.Sprintf("certificate %q is neither that of a CA nor self-signed", clip(name)),
				"give the root certificate of who signs, not the signer's own")
		}
		base := name
		if extension := filepath.Ext(name); slices.Contains([]string{".pem", ".crt", ".cer"}, strings.ToLower(extension)) {
			base = strings.TrimSuffix(name, extension)
		}
		if kind := meansStore(base); kind != "" {
			return nil, invalidPolicy(fmt.Sprintf("the name of certificate %q resembles that of a trust store of the type %q",
				clip(name), kind),
				fmt.Sprintf("name it %q to use it in the store %q, or remove that word from the name to use it in every store "+
					"of signers", kind+".acme.pem", kind+":acme"))
		}
		out[base] = append(out[base], certificates...)
	}
	return out, nil
}

// of returns the certificates of a store, "type:name". Files named after a store
// are for it alone.
func (f certificateFiles) of(store string) []*x509.Certificate {
	kind, name, _ := strings.Cut(store, ":")
	out := f[kind+"."+name]
	if kind == string(truststore.TypeTSA) {
		// A public timestamp authority's root certifies signers of all kinds: to
		// trust its times must not be to trust them.
		return out
	}
	for _, file := range slices.Sorted(maps.Keys(f)) {
		if !namesStore(file) {
			out = append(slices.Clip(out), f[file]...)
		}
	}
	return out
}

// namesStore tells files that are for one store.
func namesStore(file string) bool {
	kind, name, found := strings.Cut(file, ".")
	return found && name != "" && slices.Contains(truststore.Types, truststore.Type(kind))
}

// meansStore returns the type of trust store that the name of a file suggests
// without being of the form "TYPE.STORE", or "". Such a file would be in every store
// of signers: a timestamp authority's would make signers of all whom it certifies.
// "ca" is a word in many names, so it counts only where the form is nearly right.
func meansStore(file string) truststore.Type {
	if namesStore(file) {
		return ""
	}
	words := strings.FieldsFunc(strings.ToLower(file),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, kind := range []truststore.Type{truststore.TypeTSA, truststore.TypeSigningAuthority} {
		if slices.Contains(words, strings.ToLower(string(kind))) {
			return kind
		}
	}
	if kind, _, found := strings.Cut(file, "."); found && strings.EqualFold(kind, string(truststore.TypeCA)) {
		return truststore.TypeCA
	}
	return ""
}

// trustStores holds certificates by store, "type:name".
type trustStores map[string][]*x509.Certificate

// GetCertificates implements truststore.X509TrustStore.
func (s trustStores) GetCertificates(_ context.Context, storeType truststore.Type,
	namedStore string,
) ([]*x509.Certificate, error) {
	certificates, ok := s[string(storeType)+":"+namedStore]
	if !ok {
		return nil, truststore.TrustStoreError{Msg: "the trust store does not exist"}
	}
	return certificates, nil
}
