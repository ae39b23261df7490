// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// readStrategy sets the strategy of rollouts.
func (r *Reconciler) readStrategy(_ context.Context, scope *helmOpScope) error {
	scope.strategy, scope.waves, scope.selectorErr = strategy(scope.helmOp.Spec.Rollout)
	return nil
}

// strategy converts spec.rollout into the types of package rollout. It also returns the selectors of the waves.
func strategy(spec *addonsv1.Rollout) (rollout.Strategy, []labels.Selector, error) {
	if spec == nil {
		return rollout.Strategy{}, nil, nil
	}
	s := rollout.Strategy{
		Paused:         spec.Paused,
		MaxUnavailable: rolloutstate.Limit(spec.MaxUnavailable),
		Soak:           time.Duration(spec.MinReadySeconds) * time.Second,
		Budgeted:       true,
		MaxFailures:    rolloutstate.MaxFailures(spec),
		Rollback:       spec.OnFailure == addonsv1.RolloutFailureActionRollback,
	}
	selectors := make([]labels.Selector, 0, len(spec.Waves))
	for i := range spec.Waves {
		wave := &spec.Waves[i]
		selector, err := selection.Compile(&wave.ClusterSelector)
		if err != nil {
			return rollout.Strategy{}, nil, fmt.Errorf("spec.rollout.waves, %s: clusterSelector: %w", wave.Name, err)
		}
		selectors = append(selectors, selector)
		s.Waves = append(s.Waves, rollout.Wave{
			Name: wave.Name, MaxUnavailable: rolloutstate.Limit(wave.MaxUnavailable),
			Manual: wave.Promotion == addonsv1.WavePromotionManual,
			Soak:   time.Duration(ptr.Deref(wave.MinReadySeconds, spec.MinReadySeconds)) * time.Second,
		})
	}
	return s, selectors, nil
}

// rolloutState converts the rollout of the newest revision into the type of package rollout.
func (s *helmOpScope) rolloutState() rollout.State {
	newest := s.revisions.Newest()
	if newest == nil {
		return rollout.State{}
	}
	return rollout.State{
		Revision: newest.Spec.Number, First: s.revisions.IsFirst(newest.Spec.Number), Good: s.revisions.LastGood(),
		Phase: rollout.Phase(newest.Status.Phase), Passed: newest.Status.PassedWave,
		Acknowledged: int(newest.Status.AcknowledgedFailures), Reason: newest.Status.Reason,
	}
}

// maxRequestedRevision is the highest number of a HelmOp revision in an annotation that HelmOp does not use again.
// Without a limit, a wrong value would leave no numbers.
const maxRequestedRevision = 1_000_000_000

// requestedRevision returns the highest number of a HelmOp revision in the annotations with requests; 0 if there is
// none. A revision that is created later must have a higher number, because the requests are older. For example, a
// re-created or restored HelmOp still has the annotations of the former HelmOp, but knows no revision. This also
// applies to the first revision: waves delay the adoption of releases, and the changes of lost HelmOpReleases.
func requestedRevision(helmOp *addonsv1.HelmOp) int64 {
	highest := int64(0)
	for _, annotation := range []string{addonsv1.RolloutPromoteAnnotation, addonsv1.RolloutContinueAnnotation,
		addonsv1.RolloutAbortAnnotation} {
		value, _, _ := strings.Cut(helmOp.Annotations[annotation], "/")
		if number, err := strconv.ParseInt(value, 10, 64); err == nil && number <= maxRequestedRevision {
			highest = max(highest, number)
		}
	}
	return highest
}

// rolloutRequests returns the requests in annotations for the rollout of the newest revision. The value of an
// annotation begins with the number of its revision. So a request for an older rollout has no effect.
func rolloutRequests(helmOp *addonsv1.HelmOp, newest *addonsv1.HelmOpRevision) rollout.Requests {
	if newest == nil {
		return rollout.Requests{}
	}
	number := strconv.FormatInt(newest.Spec.Number, 10)
	requested := func(annotation string) (rest string, ok bool) {
		revision, rest, _ := strings.Cut(helmOp.Annotations[annotation], "/")
		return rest, revision == number
	}
	var requests rollout.Requests
	if _, ok := requested(addonsv1.RolloutContinueAnnotation); ok {
		requests.Continue = continueRequest(helmOp) != newest.Status.LastContinueRequest
	}
	_, requests.Abort = requested(addonsv1.RolloutAbortAnnotation)
	if wave, ok := requested(addonsv1.RolloutPromoteAnnotation); ok {
		requests.Promoted = wave
	}
	return requests
}

// maxRolloutReason is the maximum length of the reason in the status of a revision, in bytes.
const maxRolloutReason = 512

// maxContinueRequest is the maximum length of a request to continue in the status of a revision, in bytes.
const maxContinueRequest = 128

// continueRequest returns the value of the annotation that requests to continue. It replaces a value above the limit by
// its digest.
func continueRequest(helmOp *addonsv1.HelmOp) string {
	value := helmOp.Annotations[addonsv1.RolloutContinueAnnotation]
	if len(value) > maxContinueRequest {
		value = apiutil.HexDigest(value)
	}
	return value
}

// record computes the plan, writes the state of the rollout, and then carries out the plan. The steps of different
// Clusters are independent: an error for one Cluster does not affect the others.
func (r *Reconciler) record(ctx context.Context, scope *helmOpScope) error {
	input, err := r.planInput(scope)
	if err != nil {
		return err
	}
	decideApproval(scope, &input)
	if err := r.recordApproval(ctx, scope); err != nil {
		return err
	}
	unmarked := r.decideDeletions(ctx, scope, input.Clusters)
	input.DeletionsHeld = scope.deletions.Held
	scope.plan = rollout.Plan(input)
	scope.retryWithin(scope.plan.RequeueAfter)
	if err := r.recordRollout(ctx, scope, input.Requests); err != nil {
		return err
	}
	if returns(scope.plan.State.Phase) && !returns(input.State.Phase) {
		// The next pass renders the last known good revision.
		scope.retryWithin(time.Millisecond)
		return unmarked
	}
	if err := r.recordDeletions(ctx, scope, input.Clusters); err != nil {
		return err
	}
	r.reportDeletions(scope)
	r.reportApproval(scope)
	return kerrors.NewAggregate([]error{r.applyPlan(ctx, scope), unmarked, r.repairRevisions(ctx, scope),
		r.pruneRevisions(ctx, scope)})
}

// returns reports whether Clusters return to the last known good revision.
func returns(phase rollout.Phase) bool {
	return phase == rollout.PhaseRolledBack || phase == rollout.PhaseAborted
}

// hasGivenUp reports whether the HelmOp revision of a child was rolled back or aborted.
func (s *helmOpScope) hasGivenUp(child *addonsv1.HelmOpRelease) bool {
	revision := s.revisions.Numbered(apiutil.RevisionOf(child))
	return revision != nil && returns(rollout.Phase(revision.Status.Phase))
}

// recordRollout writes the state of the rollout of the newest revision.
func (r *Reconciler) recordRollout(ctx context.Context, scope *helmOpScope, requests rollout.Requests) error {
	newest := scope.revisions.Newest()
	if newest == nil {
		return nil
	}
	state, before := scope.plan.State, newest.Status
	status := before
	status.Phase, status.Reason = addonsv1.RolloutPhase(state.Phase), apiutil.Truncate(state.Reason, maxRolloutReason)
	if status.Phase == "" {
		status.Phase = addonsv1.RolloutPhaseProgressing
	}
	status.AcknowledgedFailures, status.PassedWave = int32(state.Acknowledged), state.Passed
	status.Good = status.Good || status.Phase == addonsv1.RolloutPhaseComplete
	if requests.Continue {
		status.LastContinueRequest = continueRequest(scope.helmOp)
	}
	switch {
	case status.Phase == addonsv1.RolloutPhaseProgressing:
		status.EndedAt = metav1.Time{}
	case status.Phase != before.Phase:
		status.EndedAt = metav1.NewTime(r.now())
	}
	if err := r.writeRevision(ctx, newest, status); err != nil {
		return err
	}
	for _, event := range helmopstatus.RolloutEvents(scope.overview(), before.Phase, status) {
		r.event(scope.helmOp, event.Type, event.Reason, "Rollout", event.Message)
	}
	return nil
}

// planInput returns the input of package rollout for this pass.
func (r *Reconciler) planInput(scope *helmOpScope) (rollout.Input, error) {
	input := rollout.Input{
		Strategy: scope.strategy, State: scope.rolloutState(),
		Requests: rolloutRequests(scope.helmOp, scope.revisions.Newest()),
		Clusters: make([]rollout.Cluster, 0, len(scope.clusters)), Now: r.now(),
	}
	newest := scope.revisions.Newest()
	for _, c := range scope.clusters {
		planned, err := plannedCluster(c, input.State.Good, scope.helmOp.Spec.DeletionPolicy, r.planned)
		if err != nil {
			return rollout.Input{}, err
		}
		planned.Paused = planned.Paused || scope.awaitsRevisions
		planned.Wave = waveOf(c, scope.waves)
		planned.Known = newest != nil && isKnown(c, startOf(newest))
		if planned.Child != nil {
			planned.Child.GivenUp = scope.hasGivenUp(c.child)
			rolloutstate.SetAdoption(planned.Child, c.child, scope.revisions.IsFirst(apiutil.RevisionOf(c.child)))
		}
		input.Clusters = append(input.Clusters, planned)
	}
	return input, nil
}

// startOf returns when the rollout of a HelmOp revision began. If the clock of the manager was ahead, the creation time
// is earlier, as the clock of the API server has it: otherwise Clusters that are created meanwhile would not be new.
func startOf(revision *addonsv1.HelmOpRevision) metav1.Time {
	began, created := revision.Status.StartedAt, revision.CreationTimestamp
	if !created.IsZero() && created.Before(&began) {
		return created
	}
	return began
}

// isKnown reports whether a Cluster had a release, or could have had one, when a rollout began. If the release exists,
// isKnown uses its spec. clusterctl move preserves the spec, but not the creation time of a Cluster.
func isKnown(c *clusterScope, began metav1.Time) bool {
	if c.child != nil {
		assigned := c.child.Spec.Rollout
		return !apiutil.HasJoined(c.child) || assigned.At.Before(&began) && !apiutil.IsOfFormerCluster(c.child)
	}
	if c.cluster == nil {
		return false
	}
	initialized := conditions.GetLastTransitionTime(c.cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	return c.cluster.CreationTimestamp.Before(&began) && (initialized == nil || initialized.Before(&began))
}

// waveOf returns the index of the first wave that selects a Cluster, or the number of waves if no wave does. The labels
// of an awaited Cluster are not known. So it counts for the first wave: otherwise later waves would not wait for it.
func waveOf(c *clusterScope, waves []labels.Selector) int {
	switch {
	case c.awaited:
		return 0
	case c.object == nil:
		return len(waves)
	default:
		return firstWave(c.object, waves)
	}
}

func plannedCluster(c *clusterScope, good int64, policy addonsv1.DeletionPolicy,
	cache *rolloutstate.Cache,
) (rollout.Cluster, error) {
	planned := rollout.Cluster{Name: c.name, Selected: c.selected, Gone: c.object == nil && !c.awaited,
		Blocked:       c.blocked != "",
		TargetInvalid: failures.Of(c.err, failures.Planning).Invalid, GoodPending: c.goodPending, Defers: c.defers}
	planned.NotServed = isAccessDenied(c) || isHeldByOtherShard(c, policy)
	planned.Paused = planned.NotServed || c.awaited
	if c.cluster != nil {
		planned.Deleting = !c.cluster.DeletionTimestamp.IsZero()
		planned.Paused = planned.Paused || apiutil.IsClusterPaused(c.cluster)
		planned.Initialized = apiutil.IsInitialized(c.cluster)
		planned.AfterMove = isAfterMove(c)
	}
	var err error
	var assigned, pinned *rollout.Release
	if c.child != nil {
		if assigned, err = cache.Of(c.child); err != nil {
			return rollout.Cluster{}, err
		}
	}
	own := c.own
	if own == c.target {
		own = nil // Most Clusters have the newest revision. The comparison of large specs takes time.
	}
	for _, desired := range []struct {
		spec    *addonsv1.HelmOpReleaseSpec
		release **rollout.Release
	}{{c.target, &planned.Target}, {c.good, &planned.Good}, {own, &planned.Own}, {c.pinned, &pinned}} {
		if assigned != nil && rolloutstate.HasSpec(c.child, desired.spec) {
			*desired.release = assigned
			continue
		}
		if *desired.release, err = rolloutstate.Release(desired.spec); err != nil {
			return rollout.Cluster{}, err
		}
	}
	if c.own == c.target {
		planned.Own = planned.Target
	}
	if c.child == nil {
		return planned, nil
	}
	// The pin of a former Cluster does not count, and ends when the status of the release is reset.
	planned.Paused = planned.Paused || c.object != nil && apiutil.HasFormerStatus(c.child, c.object)
	if number, ok := apiutil.PinOf(c.child); ok {
		planned.Pin = &rollout.Pin{Revision: number, Release: pinned}
	}
	planned.Child = &rollout.Child{
		Release: *assigned, Revision: apiutil.RevisionOf(c.child), Deleting: !c.child.DeletionTimestamp.IsZero(),
		UnreachableAtDeletion: rolloutstate.WasUnreachableAtDeletion(c.child),
		Foreign:               c.child.Status.State == string(model.StateForeign),
		Confirmed:             c.child.Annotations[addonsv1.DeletionConfirmedAnnotation] != "",
		Deferred:              apiutil.IsDeferred(c.child),
		HasFailures:           c.child.Status.Failures > 0,
		AwaitsDependencies:    rolloutstate.AwaitsDependencies(c.child),
		Unread:                c.child.Status.State == "" || c.child.Status.State == string(model.StateUnreachable),
	}
	_, isReplaced := apiutil.ReplacedBy(c.child)
	planned.Child.Replaced = isReplaced && planned.Child.Deleting
	if r := c.child.Spec.Rollout; r != nil {
		planned.Child.FailedBefore, planned.Child.AssignedAt = r.FailedBefore, r.At.Time
	}
	planned.Child.Joined, planned.Child.OfFormerCluster = apiutil.HasJoined(c.child), apiutil.IsOfFormerCluster(c.child)
	if previous := previousOf(c.child, good); previous != nil {
		planned.Child.Previous = previous.Revision
	}
	planned.Paused = planned.Paused || apiutil.IsChildPaused(c.child)
	planned.Health, planned.ReadySince = rolloutstate.Health(c.child)
	planned.Retrying = rolloutstate.IsRetrying(c.child)
	planned.ReadyFor, planned.WasReady = rolloutstate.ReadyBefore(c.child)
	return planned, nil
}

// isAfterMove reports whether HelmOp has not read the release of a Cluster since a clusterctl move or a restore, see
// [rollout.Cluster]. HelmOp creates a child only after its Cluster is initialized. A child that a user has paused does
// not count: HelmOp may never read its release. A re-created Cluster is new.
func isAfterMove(c *clusterScope) bool {
	if c.awaited {
		return !apiutil.IsChildPaused(c.child)
	}
	if c.child == nil || c.object == nil || c.kept || c.otherShard != "" || apiutil.IsChildPaused(c.child) ||
		apiutil.IsOfFormerCluster(c.child) || apiutil.HasFormerStatus(c.child, c.object) || isAccessDenied(c) {
		return false
	}
	ready := conditions.GetReason(c.child, addonsv1.ReadyCondition)
	hasNoStatus := c.child.Status.State == "" && (ready == "" || ready == addonsv1.ControlPlaneNotInitializedReason ||
		ready == addonsv1.ClusterNotFoundReason)
	return !apiutil.IsInitialized(c.cluster) || apiutil.IsClusterPaused(c.cluster) && hasNoStatus
}

// isAccessDenied reports whether the HelmOp has lost the access to a Cluster. The release of such a Cluster is not
// changed, and counts neither as a success nor as a failure.
func isAccessDenied(c *clusterScope) bool {
	return failures.Of(c.err, failures.Planning).Reason == addonsv1.ClusterAccessDeniedReason ||
		c.child != nil && conditions.GetReason(c.child, addonsv1.ReadyCondition) == addonsv1.ClusterAccessDeniedReason
}
