// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

const (
	// maxSigners is the number of signers in the status.
	maxSigners = 16

	// maxSigner is the length of the name of a signer in the status, in bytes.
	maxSigner = 512
)

// verifiedCondition returns the condition Verified for the result of a lookup; nil if no signatures are required. If
// the signatures could not be checked, the status is Unknown, unless the artifact in use was verified before by the
// same policy. isFresh is true if the signatures were checked.
func verifiedCondition(helmOp *addonsv1.HelmOp, l *lookup, found resolved,
	err error,
) (condition *metav1.Condition, isFresh bool) {
	if helmOp.Spec.Source.Verify == nil {
		return nil, true
	}
	if err == nil && found.signed != nil {
		return signedCondition(found.artifact.Digest, found.signed.Signers), true
	}
	reason := reasons.For(err, reasons.ArtifactErrors, addonsv1.VerificationErrorReason)
	if errors.Is(err, errResolving) {
		reason = addonsv1.ResolvingReason
	}
	if l.policyErr != nil {
		reason = reasons.For(l.policyErr, reasons.ArtifactErrors, addonsv1.InvalidVerificationPolicyReason)
	}
	isWrong := l.policyErr != nil || errors.Is(err, verification.ErrInvalidPolicy) ||
		errors.Is(err, verification.ErrUnsigned) || errors.Is(err, verification.ErrUntrusted)
	switch known := l.known; {
	case isWrong:
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: err.Error()}, true
	case l.hasFailedBefore && isRefusal(l.lastResult.verified):
		return l.lastResult.verified, false
	case l.policy != nil && known != nil && verify.IsKnownSigned(known, known.URL, known.Digest, l.policy):
		return signedCondition(known.Digest, known.Verification.Signers), false
	default:
		return &metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: err.Error()}, false
	}
}

// isRefusal reports whether a condition means that the signatures were checked and do not satisfy the policy.
func isRefusal(condition *metav1.Condition) bool {
	return condition != nil && condition.Status == metav1.ConditionFalse &&
		(condition.Reason == addonsv1.SignatureNotFoundReason || condition.Reason == addonsv1.SignatureUntrustedReason)
}

func signedCondition(digest string, names []string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.VerifiedReason,
		Message: fmt.Sprintf("%s is signed by %s", digest, strings.Join(signers(names), ", "))}
}

// signers returns the names of signers within the limits of the status.
func signers(names []string) []string {
	short := make([]string, 0, min(len(names), maxSigners))
	for _, name := range names[:cap(short)] {
		short = append(short, apiutil.Truncate(name, maxSigner))
	}
	return short
}
