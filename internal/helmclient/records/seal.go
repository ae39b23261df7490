// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
)

const (
	// sealKeySize is the size of a key for AES-256, in bytes.
	sealKeySize = 32
	// sealOverhead is the number of bytes that sealing adds to a payload: the nonce and the tag.
	sealOverhead = 12 + 16
)

// errSeal is the error for a payload that cannot be decrypted. It reveals nothing about the payload.
var errSeal = errors.New("it cannot be decrypted")

// seal encrypts a payload with a new key, which is used for nothing else.
func seal(plain []byte) (sealed, key []byte, err error) {
	key = make([]byte, sealKeySize)
	// Read never returns an error: if it fails, it ends the process.
	_, _ = rand.Read(key)
	gcm, err := newSeal(key)
	if err != nil {
		return nil, nil, err
	}
	return gcm.Seal(nil, nil, plain, nil), key, nil
}

// unseal decrypts what seal encrypted. It fails if the sealed bytes were changed.
func unseal(sealed, key []byte) ([]byte, error) {
	if len(key) != sealKeySize {
		return nil, errSeal
	}
	gcm, err := newSeal(key)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, errSeal
	}
	return plain, nil
}

func newSeal(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
