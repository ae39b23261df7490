// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

const (

	// maxSigners bounds the list of signers in the status.
	maxSigners = 16

	// maxSigner bounds the text of a signer in the status.
	maxSigner = 512
)

// reportVerification says whether the artifact is signed as demanded; nil if nothing is demanded.
func (r *Reconciler) reportVerification(helmOp *addonsv1.HelmOp, condition *metav1.Condition) {
	if condition == nil {
		conditions.Delete(helmOp, addonsv1.VerifiedCondition)
		return
	}
	changed := report.SetCondition(helmOp, addonsv1.VerifiedCondition, condition.Status, condition.Reason,
		condition.Message)
	if changed && condition.Status == metav1.ConditionTrue {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.VerifiedReason, "Verify", condition.Message)
	}
}

// verifiedCondition is what an inquiry says about signatures; nil if none are demanded. What could not be looked at is
// unknown, unless it is known from before under the demands of now. isFresh tells whether it was looked at.
func verifiedCondition(helmOp *addonsv1.HelmOp, asked *lookup, found resolved,
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
	if asked.policyErr != nil {
		reason = reasons.For(asked.policyErr, reasons.ArtifactErrors, addonsv1.InvalidVerificationPolicyReason)
	}
	isWrong := asked.policyErr != nil || errors.Is(err, verification.ErrInvalidPolicy) ||
		errors.Is(err, verification.ErrUnsigned) || errors.Is(err, verification.ErrUntrusted)
	switch known := asked.known; {
	case isWrong:
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: err.Error()}, true
	case asked.hasFailedBefore && isRefusal(asked.lastResult.verified):
		return asked.lastResult.verified, false
	case asked.policy != nil && known != nil && verify.IsKnownSigned(known, known.URL, known.Digest, asked.policy):
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
		short = append(short, apiutil.Truncate(name, maxSigner))
	}
	return short
}
