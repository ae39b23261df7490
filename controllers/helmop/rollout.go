// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// readStrategy sets how a revision spreads.
func (r *Reconciler) readStrategy(_ context.Context, scope *helmOpScope) error {
	scope.strategy, scope.waves, scope.selectorErr = strategy(scope.helmOp.Spec.Rollout)
	return nil
}

// strategy is spec.rollout in the terms of the plan, with the selectors of its waves.
func strategy(spec *addonsv1.Rollout) (rollout.Strategy, []labels.Selector, error) {
	if spec == nil {
		return rollout.Strategy{}, nil, nil
	}
	s := rollout.Strategy{
		Paused:         spec.Paused,
		MaxUnavailable: limitOf(spec.MaxUnavailable),
		Soak:           time.Duration(spec.MinReadySeconds) * time.Second,
		Budgeted:       true,
		MaxFailures:    rollout.Limit{Count: 1},
		Rollback:       spec.OnFailure == addonsv1.RolloutFailureActionRollback,
	}
	if spec.MaxFailures != nil {
		s.MaxFailures = limitOf(spec.MaxFailures)
	}
	selectors := make([]labels.Selector, 0, len(spec.Waves))
	for i := range spec.Waves {
		wave := &spec.Waves[i]
		selector, err := metav1.LabelSelectorAsSelector(&wave.ClusterSelector)
		if err != nil {
			return rollout.Strategy{}, nil, fmt.Errorf("spec.rollout.waves, %s: clusterSelector: %w", wave.Name, err)
		}
		selectors = append(selectors, selector)
		s.Waves = append(s.Waves, rollout.Wave{
			Name: wave.Name, MaxUnavailable: limitOf(wave.MaxUnavailable),
			Manual: wave.Promotion == addonsv1.WavePromotionManual,
			Soak:   time.Duration(ptr.Deref(wave.MinReadySeconds, spec.MinReadySeconds)) * time.Second,
		})
	}
	return s, selectors, nil
}

// limitOf is a number or a percentage in the terms of the plan. Admission has checked its form.
func limitOf(value *intstr.IntOrString) rollout.Limit {
	if value == nil {
		return rollout.Limit{}
	}
	if value.Type == intstr.Int {
		return rollout.Limit{Count: value.IntValue()}
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	if err != nil {
		return rollout.Limit{Count: 1}
	}
	return rollout.Limit{Percent: percent}
}

// rolloutState is the state of the rollout of the newest revision, in the terms of the plan.
func (s *helmOpScope) rolloutState() rollout.State {
	newest := s.newestRevision()
	if newest == nil {
		return rollout.State{}
	}
	return rollout.State{
		Revision: newest.Spec.Number, Good: s.lastGood(), Phase: rollout.Phase(newest.Status.Phase),
		Acknowledged: int(newest.Status.AcknowledgedFailures), Reason: newest.Status.Reason, Passed: newest.Status.PassedWave,
	}
}

// rolloutRequests are the requests in annotations for the rollout of the newest revision. Each begins with the number
// of its revision, so that one for an older rollout has no effect.
func rolloutRequests(helmOp *addonsv1.HelmOp, newest *addonsv1.HelmOpRevision) rollout.Requests {
	if newest == nil {
		return rollout.Requests{}
	}
	number := strconv.FormatInt(newest.Spec.Number, 10)
	concerns := func(annotation string) (rest string, ok bool) {
		revision, rest, _ := strings.Cut(helmOp.Annotations[annotation], "/")
		return rest, revision == number
	}
	var requests rollout.Requests
	if _, ok := concerns(addonsv1.RolloutContinueAnnotation); ok {
		requests.Continue = continueRequest(helmOp) != newest.Status.LastContinueRequest
	}
	_, requests.Abort = concerns(addonsv1.RolloutAbortAnnotation)
	if wave, ok := concerns(addonsv1.RolloutPromoteAnnotation); ok {
		requests.Promoted = wave
	}
	return requests
}

// maxContinueRequest is the limit of the status of a revision, in bytes.
const maxContinueRequest = 128

// continueRequest is the value of the annotation that asks to continue, in the form that the status keeps.
func continueRequest(helmOp *addonsv1.HelmOp) string {
	value := helmOp.Annotations[addonsv1.RolloutContinueAnnotation]
	if len(value) > maxContinueRequest {
		value = apiutil.HexDigest(value)
	}
	return value
}

// record makes the plan, writes the state of the rollout, and then carries out the plan. An error for one Cluster
// does not keep the others from their step.
func (r *Reconciler) record(ctx context.Context, scope *helmOpScope) error {
	input, err := r.planInput(scope)
	if err != nil {
		return err
	}
	scope.deletions = r.decideDeletions(scope, input.Clusters)
	input.DeletionsHeld = scope.deletions.Held
	scope.plan = rollout.Plan(input)
	scope.retryWithin(scope.plan.RequeueAfter)
	if err := r.recordRollout(ctx, scope, input.Requests); err != nil {
		return err
	}
	if returns(scope.plan.State.Phase) && !returns(input.State.Phase) {
		// The next pass renders the revision to which the Clusters return.
		scope.retryWithin(time.Millisecond)
		return nil
	}
	if err := r.recordDeletions(ctx, scope, input.Clusters); err != nil {
		return err
	}
	r.reportDeletions(scope)
	return kerrors.NewAggregate(append(r.carryOutAll(ctx, scope), r.repairRevisions(ctx, scope),
		r.pruneRevisions(ctx, scope)))
}

// returns reports whether Clusters return to the last known good revision.
func returns(phase rollout.Phase) bool {
	return phase == rollout.PhaseRolledBack || phase == rollout.PhaseAborted
}

// recordRollout writes the state of the rollout of the newest revision.
func (r *Reconciler) recordRollout(ctx context.Context, scope *helmOpScope, requests rollout.Requests) error {
	newest := scope.newestRevision()
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
	r.recordRolloutEvents(scope, before.Phase, status)
	return nil
}

// planInput is what the plan needs of the Clusters.
func (r *Reconciler) planInput(scope *helmOpScope) (rollout.Input, error) {
	input := rollout.Input{
		Strategy: scope.strategy, State: scope.rolloutState(),
		Requests: rolloutRequests(scope.helmOp, scope.newestRevision()),
		Clusters: make([]rollout.Cluster, 0, len(scope.clusters)), Now: r.now(),
	}
	newest := scope.newestRevision()
	for _, c := range scope.clusters {
		planned, err := plannedCluster(c, input.State.Good, scope.helmOp.Spec.DeletionPolicy, r.planned)
		if err != nil {
			return rollout.Input{}, err
		}
		planned.Wave = waveOf(c, scope.waves)
		planned.Known = newest != nil && isKnown(c, newest.Status.StartedAt)
		input.Clusters = append(input.Clusters, planned)
	}
	return input, nil
}

// isKnown reports whether a Cluster had a release, or could have had one, when a rollout began. Creation times do not
// survive clusterctl move, but releases do.
func isKnown(c *clusterScope, began metav1.Time) bool {
	if c.child != nil {
		told := c.child.Spec.Rollout
		return told == nil || told.Reason != addonsv1.ReleaseRolloutJoined || told.At.Before(&began)
	}
	if c.cluster == nil {
		return false
	}
	served := conditions.GetLastTransitionTime(c.cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	return c.cluster.CreationTimestamp.Before(&began) && (served == nil || served.Before(&began))
}

// waveOf is the index of the first wave that selects a Cluster, or the number of waves if none does.
func waveOf(c *clusterScope, waves []labels.Selector) int {
	if c.object == nil {
		return len(waves)
	}
	return firstWave(c.object, waves)
}

func plannedCluster(c *clusterScope, good int64, policy addonsv1.DeletionPolicy,
	memory *plannedReleases,
) (rollout.Cluster, error) {
	planned := rollout.Cluster{Name: c.name, Selected: c.selected, Gone: c.object == nil, Blocked: c.blocked != "",
		TargetInvalid: isInvalid(c.err)}
	planned.Paused = isAccessDenied(c) || isHeldByOtherShard(c, policy)
	if c.cluster != nil {
		planned.Deleting = !c.cluster.DeletionTimestamp.IsZero()
		planned.Paused = planned.Paused || apiutil.IsClusterPaused(c.cluster)
		planned.Initialized = apiutil.IsInitialized(c.cluster)
	}
	var err error
	var told *rollout.Release
	if c.child != nil {
		if told, err = memory.of(c.child); err != nil {
			return rollout.Cluster{}, err
		}
	}
	for _, wanted := range []struct {
		spec    *addonsv1.HelmOpReleaseSpec
		release **rollout.Release
	}{{c.target, &planned.Target}, {c.good, &planned.Good}, {c.own, &planned.Own}} {
		if told != nil && hasRevision(wanted.spec, c.child) {
			*wanted.release = told
			continue
		}
		if *wanted.release, err = plannedRelease(wanted.spec); err != nil {
			return rollout.Cluster{}, err
		}
	}
	if c.child == nil {
		return planned, nil
	}
	planned.Child = &rollout.Child{
		Release: *told, Revision: apiutil.RevisionOf(c.child), Deleting: !c.child.DeletionTimestamp.IsZero(),
		UnreachableAtDeletion: wasAwayAtDeletion(c.child),
		Foreign:               c.child.Status.State == string(model.StateForeign),
	}
	if told := c.child.Spec.Rollout; told != nil {
		planned.Child.Joined, planned.Child.FailedBefore = told.Reason == addonsv1.ReleaseRolloutJoined, told.FailedBefore
	}
	if previous := previousOf(c.child, good); previous != nil {
		planned.Child.Previous = previous.Revision
	}
	planned.Paused = planned.Paused || apiutil.IsChildPaused(c.child)
	planned.Health, planned.ReadySince = plannedHealth(c.child)
	planned.ReadyFor, planned.WasReady = readyBefore(c.child)
	return planned, nil
}

// hasRevision reports whether a child has exactly this spec. Mostly it has, and comparing costs a fraction of
// computing digests.
func hasRevision(spec *addonsv1.HelmOpReleaseSpec, child *addonsv1.HelmOpRelease) bool {
	if spec == nil {
		return false
	}
	told := child.Spec
	told.Rollout = spec.Rollout
	return equality.Semantic.DeepEqual(spec, &told)
}

// isAccessDenied reports whether a Cluster of another namespace may not be accessed any more. Its release is left
// alone, and counts neither as a success nor as a failure.
func isAccessDenied(c *clusterScope) bool {
	var denied *selection.AccessDeniedError
	return errors.As(c.err, &denied) ||
		c.child != nil && conditions.GetReason(c.child, addonsv1.ReadyCondition) == addonsv1.ClusterAccessDeniedReason
}

// isInvalid reports whether an error means that the revision cannot be rendered for a Cluster, as opposed to an error
// that may pass.
func isInvalid(err error) bool {
	var denied *selection.AccessDeniedError
	var unresolved *reasons.UnresolvedError
	return err != nil && !errors.Is(err, render.ErrObjectRead) && !errors.Is(err, selection.ErrAccessUnknown) &&
		!errors.As(err, &unresolved) && !errors.As(err, &denied)
}

// plannedRelease is the spec of a child in the terms of the plan.
func plannedRelease(spec *addonsv1.HelmOpReleaseSpec) (*rollout.Release, error) {
	if spec == nil {
		return nil, nil
	}
	content, err := apiutil.ContentDigest(spec)
	if err != nil {
		return nil, err
	}
	rest, err := apiutil.DigestOf(spec.Artifact, spec.ClusterOptions, spec.KubernetesVersion, spec.Storage,
		spec.DeletionPolicy)
	return &rollout.Release{Identity: spec.Release.Namespace + "/" + spec.Release.Name, Content: content, Rest: rest}, err
}

// plannedHealth is the health of a release with its current spec, and since when it is Ready.
func plannedHealth(child *addonsv1.HelmOpRelease) (rollout.Health, time.Time) {
	ready := conditions.Get(child, addonsv1.ReadyCondition)
	switch {
	case isUnreachable(child):
		return rollout.HealthUnreachable, time.Time{}
	case ready == nil || ready.ObservedGeneration != child.Generation:
		return rollout.HealthProgressing, time.Time{}
	case ready.Status == metav1.ConditionTrue:
		since := ready.LastTransitionTime.Time
		if told := child.Spec.Rollout; told != nil && told.At.After(since) {
			since = told.At.Time
		}
		return rollout.HealthReady, since
	case ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason]:
		return rollout.HealthFailed, time.Time{}
	default:
		return rollout.HealthProgressing, time.Time{}
	}
}

// readyBefore is for how long a release had been Ready with its current spec when the API server of its Cluster
// ceased to answer.
func readyBefore(child *addonsv1.HelmOpRelease) (time.Duration, bool) {
	was, told := child.Status.WasReady, child.Spec.Rollout
	if was == nil || told == nil || was.Revision != told.Revision || was.Until.Before(&told.At) {
		return 0, false
	}
	since := was.Since
	if since.Before(&told.At) {
		since = told.At
	}
	return was.Until.Sub(since.Time), true
}

// wasAwayAtDeletion reports whether the API server of a release under deletion does not answer, and did not when the
// deletion began.
func wasAwayAtDeletion(child *addonsv1.HelmOpRelease) bool {
	since := conditions.GetLastTransitionTime(child, addonsv1.ClusterReachableCondition)
	return isUnreachable(child) && since != nil && since.Before(child.DeletionTimestamp)
}

// isUnreachable reports whether the API server of the Cluster of a release does not answer.
func isUnreachable(child *addonsv1.HelmOpRelease) bool {
	reachable := conditions.Get(child, addonsv1.ClusterReachableCondition)
	return reachable != nil && reachable.Status == metav1.ConditionFalse &&
		reachable.Reason == addonsv1.ClusterUnreachableReason
}
