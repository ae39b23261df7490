// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signing creates real signatures of artifacts in a registry, in the formats of cosign and notation. It signs
// with keys, with certificates, and keyless with a private Sigstore: certificate authority, certificate log,
// transparency log and timestamp authority. Each kind of signature can be created and pushed in one step (SignKeyed,
// Sigstore.SignKeyless, Notary.Sign and others). It can also be done in two steps, to change something between them.
//
// Functions that push return errors. Functions without a context work in memory. They panic if an argument is invalid.
//
// VirtualSigstore of sigstore-go cannot replace Sigstore. Its certificates contain neither promises of the certificate
// log nor URIs. Its certificates and timestamps always have the current time. Its keys cannot sign log entries for
// other certificates.
package signing
