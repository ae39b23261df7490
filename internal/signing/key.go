// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/signature"
)

// PasswordVariable is the environment variable with the password of the key, as with cosign.
const PasswordVariable = "COSIGN_PASSWORD"

// LoadKey reads a private key from "cosign generate-key-pair", or a private key in PKCS #8. It calls password only if
// the key is encrypted. It returns an error if the key cannot sign.
func LoadKey(path string, password func() ([]byte, error)) (crypto.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file", path)
	}
	der := block.Bytes
	switch block.Type {
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		secret, err := password()
		if err != nil {
			return nil, err
		}
		if der, err = encrypted.Decrypt(block.Bytes, secret); err != nil {
			return nil, fmt.Errorf("%s: the password in %s is wrong, or the key is damaged", path, PasswordVariable)
		}
	case "PRIVATE KEY":
	default:
		return nil, fmt.Errorf("%s holds a block %q, which is not a private key of cosign or PKCS #8", path, block.Type)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := signature.LoadDefaultSigner(key); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
