// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"fmt"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
)

// IsVerified reports whether an artifact is known to have the signatures that the policy requires. Without a policy, it
// returns true.
func IsVerified(verifier Verifier, known []*addonsv1.ArtifactStatus, artifact *addonsv1.ResolvedArtifact,
	policy *verification.Policy,
) bool {
	if policy == nil {
		return true
	}
	_, ok := SignersOf(verifier, known, artifact.URL, artifact.Digest, policy)
	return ok
}

// Verifier verifies signatures.
type Verifier interface {
	// Verify returns the signers of an artifact, if its signatures satisfy the policy. It caches successful results.
	Verify(ctx context.Context, url, digest string, access oci.Access, policy verification.Policy) (verification.Result,
		error)

	// Cached returns the cached result; ok is false if there is none.
	Cached(url, digest, policyDigest string) (verification.Result, bool)
}

// unverifiedError means that an artifact was resolved, but is not known to have the signatures that the policy
// requires.
type unverifiedError struct {
	url, digest string
	err         error
}

// Error implements error.
func (e *unverifiedError) Error() string {
	return fmt.Sprintf("%s@%s is not used, because its signature could not be verified: %s", e.url, e.digest, e.err)
}

// Unwrap implements the interface of errors.Is.
func (e *unverifiedError) Unwrap() error { return e.err }

// Verify returns the signers of an artifact. It sends no request if the status of the HelmOp or the verifier's cache
// has the result for the same artifact and policy.
func Verify(ctx context.Context, verifier Verifier, known []*addonsv1.ArtifactStatus, url, digest string,
	access oci.Access,
	policy *verification.Policy,
) (*verification.Result, error) {
	if signed, ok := SignersOf(verifier, known, url, digest, policy); ok {
		return signed, nil
	}
	signed, err := verifier.Verify(ctx, url, digest, access, *policy)
	if err != nil {
		return nil, &unverifiedError{url: url, digest: digest, err: err}
	}
	return &signed, nil
}

// SignersOf returns the signers of an artifact, if the status or the verifier's cache has the result.
func SignersOf(verifier Verifier, known []*addonsv1.ArtifactStatus, url, digest string,
	policy *verification.Policy,
) (*verification.Result, bool) {
	for _, artifact := range known {
		if IsKnownSigned(artifact, url, digest, policy) {
			return &verification.Result{Signers: artifact.Verification.Signers}, true
		}
	}
	signed, ok := verifier.Cached(url, digest, policy.Digest())
	return &signed, ok
}

// IsKnownSigned reports whether the status of a HelmOp shows that the signatures of an artifact satisfy the policy. The
// status counts only for this HelmOp: a user who may write the status of one HelmOp must not be able to confirm
// signatures for another.
func IsKnownSigned(known *addonsv1.ArtifactStatus, url, digest string, policy *verification.Policy) bool {
	return known != nil && known.Verification != nil && known.URL == url && known.Digest == digest &&
		known.Verification.PolicyDigest == policy.Digest()
}
