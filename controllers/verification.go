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

	// Remember takes over what an earlier process found out.
	Remember(url, digest, policyDigest string, result verification.Result)

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

// rememberSigners takes over from the status what an earlier manager found out, so that a restart verifies nothing again.
func rememberSigners(verifier Verifier, helmOp *addonsv1.HelmOp, policy *verification.Policy) {
	known := helmOp.Status.Artifact
	if policy == nil || known == nil || known.Verification == nil || known.Verification.PolicyDigest != policy.Digest() {
		return
	}
	verifier.Remember(known.URL, known.Digest, known.Verification.PolicyDigest, verification.Result{Signers: known.Verification.Signers})
}

// reportVerification says whether the artifact is signed as demanded, if anything is demanded.
func (r *helmOpReconciler) reportVerification(helmOp *addonsv1.HelmOp, found resolution, err error) {
	if helmOp.Spec.Source.Verify == nil {
		conditions.Delete(helmOp, addonsv1.VerifiedCondition)
		return
	}
	condition := verifiedCondition(found, err)
	if condition == nil {
		confirmCondition(helmOp, addonsv1.VerifiedCondition)
		return
	}
	changed := setCondition(helmOp, addonsv1.VerifiedCondition, condition.Status, condition.Reason, condition.Message)
	if changed && condition.Status == metav1.ConditionTrue {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.VerifiedReason, "Verify", condition.Message)
	}
}

// verifiedCondition is what a resolution says about signatures; nil if it did not get that far.
func verifiedCondition(found resolution, err error) *metav1.Condition {
	var unverified *unverifiedError
	switch {
	case err == nil && found.signed != nil:
		return &metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.VerifiedReason,
			Message: fmt.Sprintf("%s is signed by %s", found.artifact.Digest, strings.Join(signers(found.signed), ", "))}
	case errors.Is(err, verification.ErrInvalidPolicy), errors.As(err, &unverified):
	default:
		return nil
	}
	reason := reasonFor(err, verificationErrors, addonsv1.VerificationErrorReason)
	// What could not be looked at is not known to be wrong.
	status := metav1.ConditionUnknown
	switch reason {
	case addonsv1.InvalidVerificationPolicyReason, addonsv1.SignatureNotFoundReason, addonsv1.SignatureUntrustedReason:
		status = metav1.ConditionFalse
	}
	return &metav1.Condition{Status: status, Reason: reason, Message: err.Error()}
}

// signers are the names of a result as the status has room for them.
func signers(result *verification.Result) []string {
	names := make([]string, 0, min(len(result.Signers), maxSigners))
	for _, name := range result.Signers[:cap(names)] {
		names = append(names, truncate(name, maxSigner))
	}
	return names
}
