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

// IsVerified reports whether an artifact is known to be signed as the policy demands. It is true
// without a policy.
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
	// Verify returns who signed an artifact as the policy demands. It caches successful results.
	Verify(ctx context.Context, url, digest string, access oci.Access, policy verification.Policy) (verification.Result,
		error)

	// Cached returns the cached result, if there is one.
	Cached(url, digest, policyDigest string) (verification.Result, bool)
}

// unverifiedError means that an artifact was resolved, but is not known to be signed as the policy
// demands.
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

// Verify returns who signed an artifact. It makes no request if the status of the HelmOp has the
// result for the same artifact and policy, or if the verifier has cached it.
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

// SignersOf returns who signed an artifact, if the status or the verifier's cache has the result.
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

// IsKnownSigned reports whether the status of a HelmOp says that an artifact is signed as the
// policy demands. The status counts for this HelmOp only: a user who may write the status of one
// HelmOp must not vouch for another.
func IsKnownSigned(known *addonsv1.ArtifactStatus, url, digest string, policy *verification.Policy) bool {
	return known != nil && known.Verification != nil && known.URL == url && known.Digest == digest &&
		known.Verification.PolicyDigest == policy.Digest()
}
