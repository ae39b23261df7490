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

// maxCertificates bounds the certificates in one file of a trust store.
const maxCertificates = 64

// notationRules are a policy for notation signatures.
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

// enforceAuthenticity makes a signature by an untrusted signer fail at every level. Levels such as "audit" would only
// log the failure. They would also send requests to the revocation services that an untrusted certificate names.
func enforceAuthenticity(verification *trustpolicy.SignatureVerification) {
	override := maps.Clone(verification.Override)
	if override == nil {
		override = map[trustpolicy.ValidationType]trustpolicy.ValidationAction{}
	}
	override[trustpolicy.TypeAuthenticity] = trustpolicy.ActionEnforce
	verification.Override = override
}

// certificateFiles are certificates by file name, without the extension.
type certificateFiles map[string][]*x509.Certificate

// parseCertificates parses the certificates of a policy. Errors name the file.
func parseCertificates(files map[string][]byte) (certificateFiles, error) {
	out := certificateFiles{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		certificates, err := cryptoutils.UnmarshalCertificatesFromPEMLimited(files[name], maxCertificates)
		if err != nil || len(certificates) == 0 {
			return nil, invalidPolicy(fmt.Sprintf("certificate %q is not a certificate as PEM", clip(name)),
				`it must begin with "-----BEGIN CERTIFICATE-----"`)
		}
		if err := truststore.ValidateCertificates(certificates); err != nil {
			return nil, invalidPolicy(fmt.Sprintf("certificate %q is neither a CA certificate nor self-signed", clip(name)),
				"give the signer's root certificate, not the signing certificate")
		}
		base := name
		if extension := filepath.Ext(name); slices.Contains([]string{".pem", ".crt", ".cer"}, strings.ToLower(extension)) {
			base = strings.TrimSuffix(name, extension)
		}
		if kind := resemblesStore(base); kind != "" {
			return nil, invalidPolicy(fmt.Sprintf("the name of certificate %q resembles that of a trust store of the type %q",
				clip(name), kind),
				fmt.Sprintf("name the certificate %q to use it only in the trust store %q; or remove the word %q from the name to "+
					"use it in every trust store of signers", kind+".acme.pem", kind+":acme", kind))
		}
		out[base] = append(out[base], certificates...)
	}
	return out, nil
}

// of returns the certificates of a store with a name of the form "type:name". A file that is named after a store is
// used for this store only.
func (f certificateFiles) of(store string) []*x509.Certificate {
	kind, name, _ := strings.Cut(store, ":")
	out := f[kind+"."+name]
	if kind == string(truststore.TypeTSA) {
		// The root of a public timestamp authority also certifies signers. So trust in its timestamps must not include trust
		// in these signers.
		return out
	}
	for _, file := range slices.Sorted(maps.Keys(f)) {
		if !namesStore(file) {
			out = append(slices.Clip(out), f[file]...)
		}
	}
	return out
}

// namesStore reports whether a file is for one store only.
func namesStore(file string) bool {
	kind, name, found := strings.Cut(file, ".")
	return found && name != "" && slices.Contains(truststore.Types, truststore.Type(kind))
}

// resemblesStore returns the type of trust store in the name of a file, if the name does not have the form "TYPE.STORE"
// but resembles it; otherwise it returns "". Such a file would be used for every store of signers. All signers that a
// timestamp authority certifies would then be trusted because of the file of the timestamp authority. "ca" is a part of
// many names, so it counts only if the name has nearly the form.
func resemblesStore(file string) truststore.Type {
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

// trustStores are certificates by the name of their store, "type:name".
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
