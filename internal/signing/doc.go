// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signing signs manifests and files with a private key, in the format of cosign 3: a Sigstore bundle.
// https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md
//
// LoadKey reads a key. Manifest and Attestation sign a statement about a manifest or about files. File signs the bytes
// of a file. Push stores a bundle in a registry, as a referrer of its manifest. The package does not verify signatures.
// Package verification does.
package signing
