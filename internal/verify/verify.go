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

// IsVerified tells whether an artifact is known to be signed as demanded.
func IsVerified(verifier Verifier, known []*addonsv1.ArtifactStatus, artifact *addonsv1.ResolvedArtifact,
	policy *verification.Policy,
) bool {
	if policy == nil {
		return true
	}
	_, ok := SignersOf(verifier, known, artifact.URL, artifact.Digest, policy)
	return ok
}

// Verifier checks signatures.
type Verifier interface {
	// Verify tells who signed an artifact as a policy demands. What it found out once it remembers.
	Verify(ctx context.Context, url, digest string, access oci.Access, policy verification.Policy) (verification.Result,
		error)

	// Remembered tells what was found out, if anything was.
	Remembered(url, digest, policyDigest string) (verification.Result, bool)
}

// unverifiedError says that an artifact was resolved, but is not known to be signed as demanded.
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

// Verify tells who signed an artifact. What the status tells from before, of this very artifact and under the same
// demands, is not asked again.
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

// SignersOf tells who signed an artifact, where that is known without asking.
func SignersOf(verifier Verifier, known []*addonsv1.ArtifactStatus, url, digest string,
	policy *verification.Policy,
) (*verification.Result, bool) {
	for _, artifact := range known {
		if IsKnownSigned(artifact, url, digest, policy) {
			return &verification.Result{Signers: artifact.Verification.Signers}, true
		}
	}
	signed, ok := verifier.Remembered(url, digest, policy.Digest())
	return &signed, ok
}

// IsKnownSigned tells whether the status of a HelmOp says that an artifact is signed as demanded. It counts for this
// HelmOp only: who may write the status of one must not vouch to others.
func IsKnownSigned(known *addonsv1.ArtifactStatus, url, digest string, policy *verification.Policy) bool {
	return known != nil && known.Verification != nil && known.URL == url && known.Digest == digest &&
		known.Verification.PolicyDigest == policy.Digest()
}
