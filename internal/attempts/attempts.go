// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// Subject is a release. Attempts try to bring it to its desired state.
type Subject struct {
	Release *addonsv1.HelmOpRelease

	// HelmOp is the HelmOp of the release; nil if it does not exist.
	HelmOp *addonsv1.HelmOp

	Desired model.Desired
}

// RetryRequest returns the values of the annotation retry-requested-at of the release and its HelmOp, or their digest
// if they are long. It is empty if no retry is requested.
func RetryRequest(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) string {
	if helmOp == nil {
		return RetryRequestWith(release, "")
	}
	return RetryRequestWith(release, helmOp.Annotations[addonsv1.RetryRequestedAtAnnotation])
}

// RetryRequestWith is RetryRequest for a value of the annotation of the HelmOp.
func RetryRequestWith(release *addonsv1.HelmOpRelease, ofHelmOp string) string {
	request := release.Annotations[addonsv1.RetryRequestedAtAnnotation]
	if request != "" && ofHelmOp != "" {
		request += "/"
	}
	request += ofHelmOp
	if len(request) > requeue.MaxResolveRequest {
		request = apiutil.HexDigest(request)
	}
	return request
}

func (s *Subject) retryRequest() string { return RetryRequest(s.Release, s.HelmOp) }

// NewRetryRequest returns the retry request in the annotations that HelmOp has not carried out yet; empty if there is
// none.
func (s *Subject) NewRetryRequest() string {
	if request := s.retryRequest(); request != s.Release.Status.LastRetryRequest {
		return request
	}
	return ""
}

// InitRetryRequest marks the current retry request as carried out if the status is empty: the release is new, or its
// status was lost in a move. A later request still counts.
func (s *Subject) InitRetryRequest() {
	status := &s.Release.Status
	if status.Release == nil && status.LastAttemptedGeneration == 0 {
		status.LastRetryRequest = s.retryRequest()
		status.LastAttemptedGeneration = s.Release.Generation
	}
}

// isRetryRequested reports whether earlier failures must be ignored: the annotation requests a retry, or the spec
// changed since the last try.
func (s *Subject) isRetryRequested() bool {
	status := &s.Release.Status
	return s.NewRetryRequest() != "" ||
		status.LastAttemptedGeneration != 0 && status.LastAttemptedGeneration != s.Release.Generation
}

// requestDigest returns a digest of the last retry request. It covers the generation of the spec and the annotations.
// Helm's record of the action contains the digest too, because HelmOp may fail to write the status: the action may
// crash the manager, or the management cluster may be unreachable. The digest includes the UID, because generations
// start again at 1 after a move. A request counts as carried out only if the newest record has its digest. The value of
// the annotation is a time, so no value occurs twice.
func (s *Subject) requestDigest() string {
	return apiutil.HexDigest(fmt.Sprintf("%s/%d/%s", s.Release.UID, s.Release.Generation, s.retryRequest()))
}

// Seen holds the observations of a pass about a release.
type Seen struct {
	// Newest is the number of the newest Helm revision; 0 if there is none.
	Newest int

	// IsUnhealthy is true if a new Helm revision did not become healthy. IsUnwatchable is true if permissions to watch
	// objects of the release are missing. HasDrifted is true if objects differ from what the release installed.
	IsUnhealthy, IsUnwatchable, HasDrifted bool

	// IsRestoreRequested is true if missing objects must be created again.
	IsRestoreRequested bool
}

// Past returns the results of earlier attempts at the desired state, from the status and this pass.
func (s *Subject) Past(seen Seen) model.Past {
	status := &s.Release.Status
	past := model.Past{
		Unhealthy:      seen.IsUnhealthy,
		Unproven:       isUnproven(s.Release, seen),
		Progressing:    isProgressing(s.Release),
		Drifted:        seen.HasDrifted,
		Restore:        seen.IsRestoreRequested,
		WasOurs:        s.WasOurs(),
		Worked:         worked(s.Release),
		RetryRequested: s.isRetryRequested(),
		RetryAnnotated: s.NewRetryRequest() != "",
		Request:        s.requestDigest(),
		Jitter:         apiutil.Jitter(s.Release),
	}
	if status.LastAttemptedDigest == attemptDigest(s.Desired) && status.Failures > 0 {
		past.Failures, past.FailedAt = int(status.Failures), status.LastAttemptedAt.Time
	}
	return past
}

// worked reports whether an action that needs a release that works succeeded in the present Cluster. The history of a
// release is empty after its Cluster was re-created.
func worked(release *addonsv1.HelmOpRelease) bool {
	return slices.ContainsFunc(release.Status.History, func(action addonsv1.ReleaseAction) bool {
		return action.Succeeded && action.Action != VerbUninstall
	})
}

// WasOurs reports whether the object of the caller had the release, and no retry is requested.
func (s *Subject) WasOurs() bool { return s.hadRelease() && s.NewRetryRequest() == "" }

// hadRelease reports whether the object of the caller had the release at any time. The annotation shows this too,
// because a status is lost in a move or a restore.
func (s *Subject) hadRelease() bool {
	return s.Release.Status.Release != nil || s.Release.Annotations[addonsv1.LostToAnnotation] != ""
}

// NoteLoss writes the new owner of a lost release into the annotation lost-to. It removes the annotation if the release
// belongs to the object again, or a retry is requested that may take the release back. takes is false if the object may
// not take ownership. A release that is not installed changes nothing: its owner may be about to install it again.
func (s *Subject) NoteLoss(obs model.Observation, takes bool) {
	state := obs.State(s.Desired)
	if state == model.StateForeign && obs.Owner() != "" && s.hadRelease() && !takes {
		s.dropRetry()
	}
	switch {
	case state == model.StateForeign && s.NewRetryRequest() != "":
		if takes {
			delete(s.Release.Annotations, addonsv1.LostToAnnotation)
		}
	case state == model.StateForeign && s.WasOurs() && obs.Owner() != "":
		owner := obs.Owner()
		if model.IsSameOwner(obs, s.Desired) {
			owner = "management-cluster/" + obs.ManagementCluster()
		}
		metav1.SetMetaDataAnnotation(&s.Release.ObjectMeta, addonsv1.LostToAnnotation, owner)
	case state != model.StateForeign && state != model.StateAbsent && state != model.StateUninstalled:
		delete(s.Release.Annotations, addonsv1.LostToAnnotation)
	}
}

// dropRetry ends a retry that has no effect, because the object may not take the lost release back. A pending request
// would take it back when a user sets takeOwnership later. The earlier failures are forgotten, as after each request.
func (s *Subject) dropRetry() {
	if s.NewRetryRequest() == "" {
		return
	}
	status := &s.Release.Status
	status.LastRetryRequest = s.retryRequest()
	status.Failures, status.LastError = 0, ""
}

// isUnproven reports whether HelmOp watched the objects of the newest Helm revision and never found them healthy. It is
// false if permissions to watch objects are missing: otherwise a rollback would skip all revisions since the
// permissions were lost.
func isUnproven(release *addonsv1.HelmOpRelease, seen Seen) bool {
	memory := release.Status.Health
	return !seen.IsUnwatchable && memory != nil && memory.Revision == int64(seen.Newest) &&
		(memory.Deployed || memory.Missed) && !memory.WasHealthy
}

// isProgressing reports whether HelmOp has watched the objects of the release since its deployment, and the release may
// still become healthy.
func isProgressing(release *addonsv1.HelmOpRelease) bool {
	memory := release.Status.Health
	return memory != nil && memory.Deployed && !memory.WasHealthy &&
		conditions.GetReason(release, addonsv1.HealthyCondition) == addonsv1.HealthProgressingReason
}

// attemptDigest returns a digest of the desired state. Attempts with the same digest are counted together.
func attemptDigest(desired model.Desired) string {
	return apiutil.Truncate(model.AttemptDigest(desired), 64)
}

// IsTry reports whether an action was a try of its decision: it succeeded or changed Helm's records, or its rendering
// exceeded the limits. After any other failure, the same action follows. An action for which the manager had no room is
// no try, even if it marked the record of an interrupted action first.
func IsTry(result helmclient.Result, err error) bool {
	if errors.Is(err, helmerr.ErrBusy) {
		return false
	}
	return err == nil || result.StorageChanged || errors.Is(err, helmerr.ErrRenderLimit)
}

// Record records an action and its result in the status: the number of failures, the history and the release. It
// records nothing if the action was no try. Failures of tests do not count if policy ignores them.
func (s *Subject) Record(decision decide.Decision, policy *model.TestPolicy, result helmclient.Result, err error,
	at time.Time,
) {
	status := &s.Release.Status
	if !IsTry(result, err) {
		return
	}
	// The number in the decision does not include failures from before a retry request.
	failures := decision.Failures
	switch {
	case decision.MakesDesired() && err == nil:
		failures = 0
	case decision.Action == model.ActionTest && policy.IgnoreFailures:
	case err != nil && !IsRemediation(decision):
		failures++
	}
	now := metav1.NewTime(at)
	s.Write(status, failures, now)
	Remember(status, addonsv1.ReleaseAction{
		Action:         VerbOf(decision.Action),
		Reason:         decision.Reason,
		FromRevision:   int64(decision.FromRevision),
		Revision:       int64(result.Revision),
		Succeeded:      err == nil,
		ChartVersion:   result.ChartVersion,
		ArtifactDigest: madeFromDesired(decision, s.Release.Spec.Artifact.Digest),
		ValuesDigest:   madeFromDesired(decision, s.Release.Spec.ValuesDigest),
		Time:           now,
	})
	if result.Revision > 0 {
		status.Release = observed(s.Release, decision, result)
	}
}

// Write writes into a status the number of failed attempts at the desired state, and the time of the last
// attempt.
func (s *Subject) Write(status *addonsv1.HelmOpReleaseStatus, failures int, at metav1.Time) {
	status.Failures = int32(min(failures, 1<<20)) //nolint:gosec // bounded
	status.LastAttemptedDigest, status.LastAttemptedAt = attemptDigest(s.Desired), at
	status.LastAttemptedGeneration = s.Release.Generation
	status.LastRetryRequest = s.retryRequest()
}

// RetryDelay returns the rest of the wait after earlier failures of the same uninstallation; 0 if the uninstallation is
// due. It is due, too, if the time of the last failure is in the future: the clock of a former manager was ahead, and
// the wait would become longer by the difference. The next failure has the right time.
func RetryDelay(release *addonsv1.HelmOpRelease, attempt string, now time.Time) time.Duration {
	status := &release.Status
	if status.Failures == 0 || status.LastAttemptedDigest != attempt {
		return 0
	}
	if status.LastAttemptedAt.After(now) {
		return 0
	}
	return max(0, status.LastAttemptedAt.Add(model.Backoff(int(status.Failures), apiutil.Jitter(release))).Sub(now))
}

// RecordUninstall counts a failed uninstallation, and adds it to the history. attempt identifies the uninstallation.
func (s *Subject) RecordUninstall(decision decide.Decision, attempt string, result helmclient.Result, err error,
	at time.Time,
) {
	status := &s.Release.Status
	if err == nil || !result.StorageChanged {
		return
	}
	if status.LastAttemptedDigest != attempt {
		status.Failures = 0
	}
	status.Failures++
	status.LastAttemptedDigest, status.LastAttemptedAt = attempt, metav1.NewTime(at)
	status.LastRetryRequest = s.retryRequest()
	Remember(status, addonsv1.ReleaseAction{
		Action: VerbUninstall, Reason: decision.Reason, FromRevision: int64(decision.FromRevision),
		Time: status.LastAttemptedAt,
	})
}

// NoteError sets the last error. Messages contain it until the next success.
func NoteError(release *addonsv1.HelmOpRelease, message string) {
	release.Status.LastError = apiutil.Truncate(message, report.MaxConditionMessage)
}
