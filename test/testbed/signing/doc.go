// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signing makes real signatures of artifacts in a registry, the way
// cosign and notation make and store them: by keys, keyless with a Sigstore of
// its own (certificate authority, certificate log, transparency log, timestamp
// authority), and by certificates. Everything is made in memory; only pushes
// talk to somebody.
//
// Each kind of signature can be made and pushed in one step (SignKeyed,
// Sigstore.SignKeyless, Notary.Sign and the like), or in two, to change something
// between.
package signing
