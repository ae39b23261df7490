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

// retryRequest stands for what people asked with the annotation retry-requested-at, on the release or on its HelmOp.
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

// settleRequests takes a request as acted upon where nothing is known of the release yet: it is new, or its status was
// lost in a move, which must not count as a request. Whatever is asked for later does.
func (r *Reconciler) settleRequests(p *releasePass) {
	status := &p.release.Status
	if status.Release == nil && status.LastAttemptedGeneration == 0 {
		status.LastRetryRequest = retryRequest(p.releaseScope)
		status.LastAttemptedGeneration = p.release.Generation
	}
}

// isRetryRequested tells whether failures are to be forgotten: a human asks, or changed the spec since the last try.
func isRetryRequested(p *releasePass) bool {
	status := &p.release.Status
	request := retryRequest(p.releaseScope)
	return request != "" && request != status.LastRetryRequest ||
		status.LastAttemptedGeneration != 0 && status.LastAttemptedGeneration != p.release.Generation
}

// requestDigest stands for the last request to try, be it a change of the spec or the annotation. It is noted on what
// is made upon it, since the status may not get to say so: the try may end this process, or the management cluster be
// away. A generation starts again at 1 after a move; the UID, which is another one then, keeps it from being taken for
// an earlier one. Only an annotation that returns to the value which the newest revision was tried with is taken for
// met; it is a time.
func requestDigest(p *releasePass) string {
	return apiutil.HexDigest(fmt.Sprintf("%s/%d/%s", p.release.UID, p.release.Generation, retryRequest(p.releaseScope)))
}

// pastOf is what the status remembers of the tries at what is wanted now.
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
	if status.LastAttemptedDigest == attemptOf(p.desired) && status.Failures > 0 {
		past.Failures, past.FailedAt = int(status.Failures), status.LastAttemptedAt.Time
	}
	return past
}

// isUnproven tells whether the newest revision was followed from its deployment on, for a while at least, and has not
// been seen healthy. What nobody may look at is not held to that: a rollback would pass over all that came since the
// rights were lost.
func isUnproven(p *releasePass) bool {
	newest, _ := p.observation.Newest()
	memory := p.release.Status.Health
	return !p.unseeable && memory != nil && memory.Revision == int64(newest.Revision) &&
		(memory.Deployed || memory.Missed) && !memory.WasHealthy
}

// isProgressing tells whether the release was followed from its deployment on, and may become healthy any time.
func isProgressing(release *addonsv1.HelmOpRelease) bool {
	memory := release.Status.Health
	return memory != nil && memory.Deployed && !memory.WasHealthy &&
		conditions.GetReason(release, addonsv1.HealthyCondition) == addonsv1.HealthProgressingReason
}

// attemptOf stands for what is wanted; tries at it count together.
func attemptOf(desired model.Desired) string {
	return apiutil.Truncate(model.AttemptDigest(desired), 64)
}

// maxHistory bounds status.history.
const maxHistory = 5

// recordAttempt notes what was done, how it ended, and how often it failed.
func (r *Reconciler) recordAttempt(p *releasePass, decision decide.Decision, result helmclient.Result, err error) {
	status := &p.release.Status
	if err != nil && !result.StorageChanged && !errors.Is(err, helmerr.ErrRenderLimit) {
		return
	}
	// Where a request is to forget failures, the decision did.
	failures := decision.Failures
	switch {
	case decision.MakesDesired() && err == nil:
		failures = 0
	case decision.Action == model.ActionTest && p.policy.Test.IgnoreFailures:
	case err != nil && !isRemediation(decision):
		failures++
	}
	now := metav1.NewTime(r.now())
	p.writeTry(status, failures, now)
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

// writeTry writes into a status how often what is wanted was tried in vain, and when it was tried last.
func (p *releasePass) writeTry(status *addonsv1.HelmOpReleaseStatus, failures int, at metav1.Time) {
	status.Failures = int32(min(failures, 1<<20)) //nolint:gosec // bounded
	status.LastAttemptedDigest, status.LastAttemptedAt = attemptOf(p.desired), at
	status.LastAttemptedGeneration = p.release.Generation
	status.LastRetryRequest = retryRequest(p.releaseScope)
}

// isRelease tells whether an action makes what is wanted, of a chart and values.
func isRelease(action model.Action) bool {
	switch verbOf(action) {
	case verbInstall, verbUpgrade:
		return true
	default:
		return false
	}
}

// isRemediation tells whether a decision goes back to something else than what is wanted.
func isRemediation(decision decide.Decision) bool {
	return decision.Action == model.ActionRollback && !decision.Returns
}

// madeFromDesired is a digest of what is wanted, unless a decision goes back to something else.
func madeFromDesired(decision decide.Decision, digest string) string {
	if isRemediation(decision) {
		return ""
	}
	return digest
}

// remember adds to the history what was done.
func remember(status *addonsv1.HelmOpReleaseStatus, entry addonsv1.ReleaseAction) {
	status.History = append([]addonsv1.ReleaseAction{entry}, status.History...)
	if len(status.History) > maxHistory {
		status.History = status.History[:maxHistory]
	}
}
