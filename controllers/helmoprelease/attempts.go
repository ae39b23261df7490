// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// retryRequest returns the values of the annotation retry-requested-at of the release and its HelmOp, or their digest
// if they are long. It is empty if no retry is requested.
func retryRequest(scope *releaseScope) string {
	request := scope.release.Annotations[addonsv1.RetryRequestedAtAnnotation]
	if scope.helmOp != nil {
		ofHelmOp := scope.helmOp.Annotations[addonsv1.RetryRequestedAtAnnotation]
		if request != "" && ofHelmOp != "" {
			request += "/"
		}
		request += ofHelmOp
	}
	if len(request) > requeue.MaxResolveRequest {
		request = apiutil.HexDigest(request)
	}
	return request
}

// initRetryRequest marks the current retry request as met if the status is empty: the release is new, or its status was
// lost in a move. A later request counts.
func (r *Reconciler) initRetryRequest(p *releasePass) {
	status := &p.release.Status
	if status.Release == nil && status.LastAttemptedGeneration == 0 {
		status.LastRetryRequest = retryRequest(p.releaseScope)
		status.LastAttemptedGeneration = p.release.Generation
	}
}

// isRetryRequested reports whether earlier failures must be ignored: the annotation requests a retry, or the spec
// changed since the last try.
func isRetryRequested(p *releasePass) bool {
	status := &p.release.Status
	request := retryRequest(p.releaseScope)
	return request != "" && request != status.LastRetryRequest ||
		status.LastAttemptedGeneration != 0 && status.LastAttemptedGeneration != p.release.Generation
}

// requestDigest returns a digest of the last retry request: the generation of the spec and the annotations. Helm's
// record of the action has the digest, because the status may not be written: the action may crash the manager, or the
// management cluster may be unreachable. The digest includes the UID, because generations start again at 1 after a
// move. A request counts as met only if its digest is that of the newest record. An annotation is a time, so it does
// not repeat.
func requestDigest(p *releasePass) string {
	return apiutil.HexDigest(fmt.Sprintf("%s/%d/%s", p.release.UID, p.release.Generation, retryRequest(p.releaseScope)))
}

// pastOf returns the results of earlier attempts at the desired state, from the status and this pass.
func pastOf(p *releasePass) model.Past {
	status := &p.release.Status
	past := model.Past{
		Unhealthy:      p.unhealthy,
		Unproven:       isUnproven(p),
		Progressing:    isProgressing(p.release),
		Drifted:        p.drifted,
		Restore:        isRestoreRequested(p),
		WasOurs:        status.Release != nil && retryRequest(p.releaseScope) == status.LastRetryRequest,
		RetryRequested: isRetryRequested(p),
		Request:        requestDigest(p),
		Jitter:         apiutil.Jitter(p.release),
	}
	if status.LastAttemptedDigest == attemptDigest(p.desired) && status.Failures > 0 {
		past.Failures, past.FailedAt = int(status.Failures), status.LastAttemptedAt.Time
	}
	return past
}

// isUnproven reports whether the newest Helm revision was watched after its deployment and has not been healthy. It is
// false if permissions to watch objects are missing: otherwise a rollback would skip all revisions since the
// permissions were lost.
func isUnproven(p *releasePass) bool {
	newest, _ := p.observation.Newest()
	memory := p.release.Status.Health
	return !p.unwatchable && memory != nil && memory.Revision == int64(newest.Revision) &&
		(memory.Deployed || memory.Missed) && !memory.WasHealthy
}

// isProgressing reports whether the release was watched since its deployment and may still become healthy.
func isProgressing(release *addonsv1.HelmOpRelease) bool {
	memory := release.Status.Health
	return memory != nil && memory.Deployed && !memory.WasHealthy &&
		conditions.GetReason(release, addonsv1.HealthyCondition) == addonsv1.HealthProgressingReason
}

// attemptDigest returns a digest of the desired state. Attempts with the same digest are counted together.
func attemptDigest(desired model.Desired) string {
	return apiutil.Truncate(model.AttemptDigest(desired), 64)
}

// maxHistory is the number of actions in status.history at most.
const maxHistory = 5

// recordAttempt records an action and its result in the status: the number of failures, the history and the release.
func (r *Reconciler) recordAttempt(p *releasePass, decision decide.Decision, result helmclient.Result, err error) {
	status := &p.release.Status
	if err != nil && !result.StorageChanged && !errors.Is(err, helmerr.ErrRenderLimit) {
		return
	}
	// The decision already ignores failures from before a retry request.
	failures := decision.Failures
	switch {
	case decision.MakesDesired() && err == nil:
		failures = 0
	case decision.Action == model.ActionTest && p.policy.Test.IgnoreFailures:
	case err != nil && !isRemediation(decision):
		failures++
	}
	now := metav1.NewTime(r.now())
	p.writeAttempt(status, failures, now)
	remember(status, addonsv1.ReleaseAction{
		Action:         verbOf(decision.Action),
		Reason:         decision.Reason,
		FromRevision:   int64(decision.FromRevision),
		Revision:       int64(result.Revision),
		Succeeded:      err == nil,
		ChartVersion:   result.ChartVersion,
		ArtifactDigest: madeFromDesired(decision, p.release.Spec.Artifact.Digest),
		ValuesDigest:   madeFromDesired(decision, p.release.Spec.ValuesDigest),
		Time:           now,
	})
	if result.Revision > 0 {
		status.Release = observed(p.release, decision, result)
	}
}

// writeAttempt writes into a status the number of failed attempts at the desired state, and the time of the last
// attempt.
func (p *releasePass) writeAttempt(status *addonsv1.HelmOpReleaseStatus, failures int, at metav1.Time) {
	status.Failures = int32(min(failures, 1<<20)) //nolint:gosec // bounded
	status.LastAttemptedDigest, status.LastAttemptedAt = attemptDigest(p.desired), at
	status.LastAttemptedGeneration = p.release.Generation
	status.LastRetryRequest = retryRequest(p.releaseScope)
}

// isRelease reports whether an action installs or upgrades from a chart and values.
func isRelease(action model.Action) bool {
	switch verbOf(action) {
	case verbInstall, verbUpgrade:
		return true
	default:
		return false
	}
}

// isRemediation reports whether a decision is a rollback to another state than the desired state.
func isRemediation(decision decide.Decision) bool {
	return decision.Action == model.ActionRollback && !decision.Returns
}

// madeFromDesired returns a digest of the desired state, or nothing if the decision is a rollback to another state.
func madeFromDesired(decision decide.Decision, digest string) string {
	if isRemediation(decision) {
		return ""
	}
	return digest
}

// remember adds an action at the start of the history.
func remember(status *addonsv1.HelmOpReleaseStatus, entry addonsv1.ReleaseAction) {
	status.History = append([]addonsv1.ReleaseAction{entry}, status.History...)
	if len(status.History) > maxHistory {
		status.History = status.History[:maxHistory]
	}
}
