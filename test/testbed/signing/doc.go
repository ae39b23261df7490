// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signing makes real signatures of artifacts in a registry, as cosign and notation make and store them. It
// signs by keys, by certificates, and keyless with a private Sigstore: certificate authority, certificate log,
// transparency log and timestamp authority. Each kind of signature is made and pushed in one step (SignKeyed,
// Sigstore.SignKeyless, Notary.Sign and others), or in two, to change something between.
//
// Functions that push return errors. Functions without a context work in memory; they panic if an argument is invalid.
//
// VirtualSigstore of sigstore-go cannot replace Sigstore. Its certificates contain neither promises of the certificate
// log nor URIs. Its certificates and timestamps are from the current time only. Its keys cannot sign log entries for
// other certificates.
package signing
