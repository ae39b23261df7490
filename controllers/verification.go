/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
)

const (
	// trustedRootKey is the key of a trustedRootSecretRef's Secret that holds the root of trust.
	trustedRootKey = "trusted_root.json"

	// trustPolicyKey is the key of notation's Secret that holds the trust policy.
	trustPolicyKey = "trustpolicy.json"

	// maxSigners bounds the list of signers in the status.
	maxSigners = 16

	// maxSigner bounds the text of a signer in the status.
	maxSigner = 512
)

// Verifier checks signatures.
type Verifier interface {
	// Verify tells who signed an artifact as a policy demands. What it found out once it remembers.
	Verify(ctx context.Context, url, digest string, access oci.Access, policy verification.Policy) (verification.Result, error)

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
	return fmt.Sprintf("%s@%s is not used, for its signature was not verified: %s", e.url, e.digest, e.err)
}

// Unwrap implements the interface of errors.Is.
func (e *unverifiedError) Unwrap() error { return e.err }

// policy reads which signatures a HelmOp demands; nil if none.
func (r *referenceReader) policy(ctx context.Context, helmOp *addonsv1.HelmOp) (*verification.Policy, error) {
	verify := helmOp.Spec.Source.Verify
	if verify == nil {
		return nil, nil
	}
	policy := &verification.Policy{Provider: verification.Provider(cmp.Or(verify.Provider, addonsv1.VerificationProviderCosign))}
	for _, identity := range verify.Identities {
		policy.Identities = append(policy.Identities, verification.Identity(identity))
	}
	if verify.SecretRef != nil {
		secret, err := r.read(ctx, kindSecret, helmOp.Namespace, verify.SecretRef.Name)
		if err != nil {
			return nil, fmt.Errorf("spec.source.verify.secretRef: %w", err)
		}
		takeTrust(policy, secret.data)
	}
	if verify.TrustedRootSecretRef != nil {
		root, err := r.readKey(ctx, kindSecret, helmOp.Namespace, verify.TrustedRootSecretRef.Name, trustedRootKey)
		if err != nil {
			return nil, fmt.Errorf("spec.source.verify.trustedRootSecretRef: %w", err)
		}
		policy.TrustedRoot = root
	}
	return policy, nil
}

// takeTrust takes from a Secret what its provider trusts.
func takeTrust(policy *verification.Policy, data map[string][]byte) {
	withSuffix := func(suffixes ...string) map[string][]byte {
		found := map[string][]byte{}
		for key, value := range data {
			for _, suffix := range suffixes {
				if strings.HasSuffix(key, suffix) {
					found[key] = value
				}
			}
		}
		return found
	}
	if policy.Provider == verification.Notation {
		policy.TrustPolicy, policy.Certificates = data[trustPolicyKey], withSuffix(".crt", ".pem")
		return
	}
	policy.Keys = withSuffix(".pub")
}

// policyDigest identifies a policy; empty if there is none.
func policyDigest(policy *verification.Policy) string {
	if policy == nil {
		return ""
	}
	return policy.Digest()
}

// verify tells who signed an artifact. What the status tells from before, of this very artifact and under the same demands, is
// not asked again.
func verify(ctx context.Context, verifier Verifier, known []*addonsv1.ArtifactStatus, url, digest string, access oci.Access,
	policy *verification.Policy,
) (*verification.Result, error) {
	if signed, ok := signersOf(verifier, known, url, digest, policy); ok {
		return signed, nil
	}
	signed, err := verifier.Verify(ctx, url, digest, access, *policy)
	if err != nil {
		return nil, &unverifiedError{url: url, digest: digest, err: err}
	}
	return &signed, nil
}

// signersOf tells who signed an artifact, where that is known without asking.
func signersOf(verifier Verifier, known []*addonsv1.ArtifactStatus, url, digest string, policy *verification.Policy) (*verification.Result, bool) {
	for _, artifact := range known {
		if isKnownSigned(artifact, url, digest, policy) {
			return &verification.Result{Signers: artifact.Verification.Signers}, true
		}
	}
	signed, ok := verifier.Remembered(url, digest, policy.Digest())
	return &signed, ok
}

// isKnownSigned tells whether the status of a HelmOp says that an artifact is signed as demanded. It counts for this HelmOp
// only: who may write the status of one must not vouch to others.
func isKnownSigned(known *addonsv1.ArtifactStatus, url, digest string, policy *verification.Policy) bool {
	return known != nil && known.Verification != nil && known.URL == url && known.Digest == digest &&
		known.Verification.PolicyDigest == policy.Digest()
}

// reportVerification says whether the artifact is signed as demanded; nil if nothing is demanded.
func (r *helmOpReconciler) reportVerification(helmOp *addonsv1.HelmOp, condition *metav1.Condition) {
	if condition == nil {
		conditions.Delete(helmOp, addonsv1.VerifiedCondition)
		return
	}
	changed := setCondition(helmOp, addonsv1.VerifiedCondition, condition.Status, condition.Reason, condition.Message)
	if changed && condition.Status == metav1.ConditionTrue {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.VerifiedReason, "Verify", condition.Message)
	}
}

// verifiedCondition is what an inquiry says about signatures; nil if none are demanded. What could not be looked at is unknown,
// unless it is known from before under the demands of now. isFresh tells whether it was looked at.
func verifiedCondition(helmOp *addonsv1.HelmOp, asked *inquiry, found resolution, err error) (condition *metav1.Condition, isFresh bool) {
	if helmOp.Spec.Source.Verify == nil {
		return nil, true
	}
	if err == nil && found.signed != nil {
		return signedCondition(found.artifact.Digest, found.signed.Signers), true
	}
	reason := reasonFor(err, artifactErrors, addonsv1.VerificationErrorReason)
	if errors.Is(err, errResolving) {
		reason = addonsv1.ResolvingReason
	}
	if asked.policyErr != nil {
		reason = reasonFor(asked.policyErr, artifactErrors, addonsv1.InvalidVerificationPolicyReason)
	}
	isWrong := asked.policyErr != nil || errors.Is(err, verification.ErrInvalidPolicy) ||
		errors.Is(err, verification.ErrUnsigned) || errors.Is(err, verification.ErrUntrusted)
	switch known := asked.known; {
	case isWrong:
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: err.Error()}, true
	case asked.failedBefore && isRefusal(asked.before.verified):
		return asked.before.verified, false
	case asked.policy != nil && known != nil && isKnownSigned(known, known.URL, known.Digest, asked.policy):
		return signedCondition(known.Digest, known.Verification.Signers), false
	default:
		return &metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: err.Error()}, false
	}
}

// isRefusal tells whether a condition says that signatures were looked at and will not do.
func isRefusal(condition *metav1.Condition) bool {
	return condition != nil && condition.Status == metav1.ConditionFalse &&
		(condition.Reason == addonsv1.SignatureNotFoundReason || condition.Reason == addonsv1.SignatureUntrustedReason)
}

func signedCondition(digest string, names []string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.VerifiedReason,
		Message: fmt.Sprintf("%s is signed by %s", digest, strings.Join(signers(names), ", "))}
}

// signers are names as the status has room for them.
func signers(names []string) []string {
	short := make([]string, 0, min(len(names), maxSigners))
	for _, name := range names[:cap(short)] {
		short = append(short, truncate(name, maxSigner))
	}
	return short
}
