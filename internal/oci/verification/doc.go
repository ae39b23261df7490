// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verification verifies that an artifact in an OCI registry is signed by a signer that a policy trusts: with
// cosign (by key or keyless), or with notation. It depends on neither Helm nor Kubernetes: callers pass keys, roots and
// policies as bytes.
//
// # Contract
//
//   - A verification concerns a digest in a repository. Signatures are stored beside the artifact, so
//     the same digest in another repository is another verification.
//   - One valid signature is enough. Broken, foreign and expired signatures beside it do not matter.
//   - Successful verifications are cached by repository, digest and policy. Concurrent callers of a tenant share one
//     verification. Failures are not cached: the caller backs off.
//   - Everything is bounded: the time, the number of signatures, their sizes and the length of messages.
//   - Errors are *ocierr.Error values. Their kind is one of this package's, or one of package ocierr if the
//     request to the registry failed. They describe the findings, and why the signature that passed the
//     most checks was refused. They contain neither keys nor the signed content.
//
// # Cosign
//
// Signatures are read in this order: Sigstore bundles that refer to the artifact (by the referrers API or its tag),
// legacy signatures that refer to the artifact, and legacy signatures under the tag "sha256-….sig".
//
// A bundle must contain the statement https://sigstore.dev/cosign/sign/v1 about the digest, or a signature of the
// manifest itself. Other attestations describe an artifact, but do not prove that its publisher signed it. The
// repository in the docker-reference of a legacy signature is not compared, because a mirror has another name. cosign
// itself does not compare it either.
//
// A signature by a key of the policy needs no transparency log, because the holder of the key signed. A keyless
// signature counts if all of these are true:
//
//   - Its certificate chain leads to an authority of the trusted root.
//   - The certificate was valid at a time that a transparency log of the root signed. If the root has no log, a
//     timestamp authority must have signed the time.
//   - A certificate log contains the certificate, if the root has certificate logs.
//   - The policy has an identity with this issuer and subject.
//
// # Notation
//
// The trust policy applies as in the notation CLI. Its scopes are compared with the repository in the HelmOp, without
// "oci://". There are two differences. Level "skip" is refused. Authenticity is enforced at every level: otherwise a
// verification would prove nothing. With "audit" or "permissive", only expiry, timestamps and revocation are logged
// instead of enforced. Plugins are not supported.
//
// # Requests
//
// Requests to other hosts than the registry use the HTTP client of the registry's Client, so the same addresses are
// refused:
//
//   - The root of the public Sigstore is downloaded from one fixed URL. The library bounds each file.
//   - The revocation of notation's certificates is checked by OCSP and CRLs, only for certificates that the policy
//     trusts. The number and the size of the responses are bounded, and a CRL is read within the memory budget.
//
// There are no other requests: certificates, log entries and timestamps of cosign are checked with the trusted root,
// and provenance files with the keyring.
package verification
