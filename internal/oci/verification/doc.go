// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verification tells whether an artifact in an OCI registry is signed
// by whom a policy trusts: with cosign, by keys or keyless, or with notation. It
// knows neither Helm nor Kubernetes: keys, roots and policies come in as bytes.
//
// # Contract
//
//   - A verification is of a digest in a repository: signatures live beside what
//     they sign, so the same digest in another repository is another verification.
//   - One good signature is enough. Broken, foreign and expired ones beside it do
//     not matter.
//   - What was found good is remembered by repository, digest and policy, and is
//     not asked for again; callers that ask at the same time share one
//     verification. Failures are not remembered: the caller backs off.
//   - Everything is bounded: the time, the number of signatures, their sizes and
//     what is said about them.
//   - Errors are *oci.Error values. Their kind is one of this package's, or one of
//     package oci when the registry could not be asked. They say what was found
//     and why the signature that came closest was refused; they hold no keys and
//     nothing of what is signed.
//
// # Cosign
//
// Signatures are looked for as Sigstore bundles that refer to the artifact (by
// the referrers API or its tag), as legacy signatures that refer to it, and as
// legacy signatures under the tag "sha256-….sig", in this order. Bundles must
// hold the statement https://sigstore.dev/cosign/sign/v1 about the digest, or
// a signature of the manifest itself: other attestations say something about an
// artifact, not that its publisher signed it. The repository that a
// legacy signature claims in docker-reference is not compared, as cosign itself
// does not: a mirror has another name.
//
// A signature by one of the policy's keys counts whatever the transparency log
// says: who holds the key has signed. A keyless signature counts if its
// certificate leads to an authority of the trusted root, was valid at a time that
// the root's transparency logs (or, if it has none, its timestamp authorities)
// vouch for, is in a certificate log if the root has any, and if issuer and
// subject are an identity of the policy.
//
// # Notation
//
// The trust policy decides as in the notation CLI; scopes are compared with the
// repository as it is written in the HelmOp, without "oci://". Two things differ:
// level "skip" is refused, and authenticity is enforced at every level, for
// neither would prove anything: with "audit" or "permissive", what is only
// logged are expiry, timestamps and revocation. Plugins are not supported.
package verification
