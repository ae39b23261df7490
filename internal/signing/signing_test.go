// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore/pkg/signature"
)

func newKey(t *testing.T) (key *ecdsa.PrivateKey, der []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err = x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func writePEM(t *testing.T, kind string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func password(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

func TestLoadKey(t *testing.T) {
	t.Parallel()
	want, der := newKey(t)
	sealed, err := encrypted.Encrypt(der, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	notAsked := func() ([]byte, error) { return nil, errors.New("asked for a password") }
	cosign := writePEM(t, "ENCRYPTED SIGSTORE PRIVATE KEY", sealed)
	for path, ask := range map[string]func() ([]byte, error){
		writePEM(t, "PRIVATE KEY", der): notAsked, cosign: password("secret"),
	} {
		key, err := LoadKey(path, ask)
		if err != nil {
			t.Fatal(err)
		}
		if !want.Equal(key) {
			t.Errorf("%s is another key", path)
		}
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, reason := range map[string]string{
		cosign: "is wrong", text: "not a PEM file", text + ".no": "no such file",
		writePEM(t, "CERTIFICATE", der):       "not a private key",
		writePEM(t, "PRIVATE KEY", []byte{1}): "asn1",
	} {
		if _, err := LoadKey(path, password("wrong")); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", path, err, reason)
		}
	}
}

// TestBundles verifies both kinds of bundles, and reads them with the library of Sigstore.
func TestBundles(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	verifier, err := signature.LoadVerifier(key.Public(), crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	file, err := File(key, []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(file.GetMessageSignature().GetSignature()),
		strings.NewReader("content")); err != nil {
		t.Error(err)
	}
	manifest, err := Manifest(key, ocispec.Descriptor{Digest: "sha256:" + "ab"})
	if err != nil {
		t.Fatal(err)
	}
	envelope := manifest.GetDsseEnvelope()
	if err := verifier.VerifySignature(bytes.NewReader(envelope.GetSignatures()[0].GetSig()),
		bytes.NewReader(dsse.PAE(envelope.GetPayloadType(), envelope.GetPayload()))); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(envelope.GetPayload(), []byte(`"digest":{"sha256":"ab"}`)) {
		t.Errorf("the statement is %s", envelope.GetPayload())
	}
	text, err := Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	parsed := &bundle.Bundle{}
	if err := parsed.UnmarshalJSON(text); err != nil {
		t.Error(err)
	}
}
