// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// request changes a HelmOp. It returns a text about the change in the past tense, or an error that says why it changes
// nothing.
type request func(helmOp *addonsv1.HelmOp) (done string, err error)

// goal reports whether a HelmOp has reached the state that a request asks for. If not, waitsFor says what is missing.
// An error ends the wait.
type goal func(helmOp *addonsv1.HelmOp) (reached bool, waitsFor string, err error)

// refuse returns an error for a request that does not match the state of the HelmOp.
func refuse(helmOp *addonsv1.HelmOp, format string, args ...any) error {
	return fmt.Errorf("HelmOp %q: %s", helmOp.Name, fmt.Sprintf(format, args...))
}

func annotate(object metav1.Object, key, value string) {
	all := object.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	object.SetAnnotations(all)
}

// setPaused sets spec.paused.
func setPaused(paused bool) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		was := helmOp.Spec.Paused
		helmOp.Spec.Paused = paused
		switch {
		case paused && was:
			return "is already paused", nil
		case paused:
			return "paused", nil
		case annotations.HasPaused(helmOp):
			return "is still paused by the annotation " + clusterv1.PausedAnnotation + "; remove the annotation", nil
		case !was:
			return "is not paused", nil
		default:
			return "resumed", nil
		}
	}
}

func isPausedAs(paused bool) goal {
	return func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		condition := conditions.Get(helmOp, addonsv1.PausedCondition)
		switch {
		case !paused && annotations.HasPaused(helmOp):
			return false, "", refuse(helmOp, "the annotation %s still pauses it; remove the annotation",
				clusterv1.PausedAnnotation)
		case condition == nil:
			return false, "the manager to reconcile the HelmOp", nil
		case paused && condition.Status == metav1.ConditionTrue:
			return true, "", nil
		case !paused && condition.Status == metav1.ConditionFalse:
			return true, "", nil
		default:
			return false, fmt.Sprintf("the condition Paused, which is %s: %s", condition.Status, condition.Message), nil
		}
	}
}

// reconcileNow requests to resolve the source now.
func reconcileNow(value string) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		if err := refusePaused(helmOp); err != nil {
			return "", err
		}
		annotate(helmOp, addonsv1.ResolveRequestedAtAnnotation, value)
		return "reconciliation requested", nil
	}
}

// isReconciled reports whether the manager has handled a request to resolve the source, or the request of another user
// that has replaced it.
func isReconciled(value string) goal {
	return func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		handled := helmOp.Status.LastResolveRequest
		if handled == "" || handled != value && handled != helmOp.Annotations[addonsv1.ResolveRequestedAtAnnotation] {
			return false, "the manager to resolve the source", nil
		}
		resolved := conditions.Get(helmOp, addonsv1.ResolvedCondition)
		switch {
		case resolved == nil || resolved.Status == metav1.ConditionUnknown:
			return false, "the registry to answer", nil
		case resolved.Status == metav1.ConditionFalse:
			return false, "", refuse(helmOp, "the source cannot be resolved: %s: %s", resolved.Reason, resolved.Message)
		default:
			return true, "", nil
		}
	}
}

func refusePaused(helmOp *addonsv1.HelmOp) error {
	if apiutil.IsHelmOpPaused(helmOp) {
		return refuse(helmOp, "it is paused, so a request has no effect; resume the HelmOp first")
	}
	return nil
}

// refuseDeleting returns an error if a HelmOp is being deleted: it has no rollout any more.
func refuseDeleting(helmOp *addonsv1.HelmOp) error {
	if !helmOp.DeletionTimestamp.IsZero() {
		return refuse(helmOp, "it is being deleted, so it has no rollout any more")
	}
	return nil
}

// currentRollout returns the rollout to which a request applies. It returns an error if the rollout of the HelmOp is
// not known, or if the HelmOp is being deleted.
func currentRollout(helmOp *addonsv1.HelmOp) (*addonsv1.RolloutStatus, error) {
	if err := refuseDeleting(helmOp); err != nil {
		return nil, err
	}
	r := helmOp.Status.Rollout
	switch {
	case r == nil:
		return nil, refuse(helmOp, "it has no rollout yet")
	case apiutil.IsHelmOpPaused(helmOp):
		return nil, refuse(helmOp, "it is paused, so a request has no effect; resume the HelmOp first")
	case helmOp.Status.ObservedGeneration != helmOp.Generation:
		return nil, refuse(helmOp, "it was changed, and the manager has not reconciled the change yet; repeat the command")
	default:
		return r, nil
	}
}

// ofRevision limits a request to the rollout of a HelmOp revision. With 0, the request applies to any rollout.
func ofRevision(revision int64, limited request) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		if r := helmOp.Status.Rollout; r != nil && revision != 0 && r.Revision != revision {
			return "", refuse(helmOp, "its rollout is of HelmOp revision %d, not of HelmOp revision %d; check "+
				"HelmOp revision %d, then repeat the command with --revision=%d", r.Revision, revision, r.Revision, r.Revision)
		}
		return limited(helmOp)
	}
}

func waveIndex(helmOp *addonsv1.HelmOp, name string) int {
	if helmOp.Spec.Rollout == nil {
		return -1
	}
	return slices.IndexFunc(helmOp.Spec.Rollout.Waves, func(w addonsv1.Wave) bool { return w.Name == name })
}

func waveNames(waves []addonsv1.Wave) string {
	var all []string
	for _, wave := range waves {
		all = append(all, wave.Name)
	}
	return strings.Join(all, ", ")
}

// promote promotes a wave and all waves before it, so that the next wave begins. Without a name, it promotes the wave
// for which the rollout waits.
func promote(wave string) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		r, err := currentRollout(helmOp)
		if err != nil {
			return "", err
		}
		name := wave
		switch {
		case helmOp.Spec.Rollout == nil || len(helmOp.Spec.Rollout.Waves) == 0:
			return "", refuse(helmOp, "spec.rollout has no waves, so there is nothing to promote")
		case fleetview.IsEnded(r.Phase):
			return "", refuse(helmOp, "the rollout of HelmOp revision %d is %s, so there is nothing to "+
				"promote", r.Revision, r.Phase)
		case r.Phase == addonsv1.RolloutPhasePaused:
			return "", refuse(helmOp, "the rollout of HelmOp revision %d is Paused and waits for %s; a promotion has no effect",
				r.Revision, fleetview.WaitingFor(r))
		case r.Wave == "":
			return "", refuse(helmOp, "all waves of HelmOp revision %d are done; the rollout waits for "+
				"%s", r.Revision, fleetview.WaitingFor(r))
		}
		if name == "" {
			var waits bool
			if name, waits = fleetview.AwaitsPromotion(helmOp); !waits {
				return "", refuse(helmOp, "wave %s of HelmOp revision %d waits for %s, not for a promotion; to promote it in "+
					"advance, "+
					"use --wave=%s", r.Wave, r.Revision, fleetview.WaitingFor(r), r.Wave)
			}
		}
		index, given := waveIndex(helmOp, name), annotationFor(helmOp, addonsv1.RolloutPromoteAnnotation, r.Revision)
		switch {
		case index < 0:
			return "", refuse(helmOp, "spec.rollout has no wave %q; the waves are %s", name,
				waveNames(helmOp.Spec.Rollout.Waves))
		case index < waveIndex(helmOp, r.Wave):
			return "", refuse(helmOp, "wave %s of HelmOp revision %d is done; the current wave is %s", name, r.Revision, r.Wave)
		case given != nil && waveIndex(helmOp, *given) >= index:
			return fmt.Sprintf("wave %s of HelmOp revision %d was promoted before", name, r.Revision), nil
		}
		annotate(helmOp, addonsv1.RolloutPromoteAnnotation, fmt.Sprintf("%d/%s", r.Revision, name))
		promoted := helmOp.Spec.Rollout.Waves[max(0, waveIndex(helmOp, r.Wave)) : index+1]
		return fmt.Sprintf("%s %s of HelmOp revision %d promoted", plural.Word(len(promoted), "wave", "waves"),
			waveNames(promoted), r.Revision), nil
	}
}

// annotationFor returns the text after the revision and the slash in an annotation; nil if the annotation is absent or
// for another revision.
func annotationFor(helmOp *addonsv1.HelmOp, key string, revision int64) *string {
	number, rest, _ := strings.Cut(helmOp.Annotations[key], "/")
	if number != strconv.FormatInt(revision, 10) {
		return nil
	}
	return &rest
}

// rolloutOf returns the rollout of a revision. It returns an error if the rollout of another revision has begun.
func rolloutOf(helmOp *addonsv1.HelmOp, revision int64) (*addonsv1.RolloutStatus, error) {
	if r := helmOp.Status.Rollout; r != nil && r.Revision == revision {
		return r, nil
	}
	return nil, superseded(helmOp, revision)
}

func superseded(helmOp *addonsv1.HelmOp, revision int64) error {
	return refuse(helmOp, "HelmOp revision %d was superseded by another HelmOp revision", revision)
}

// isPromoted reports whether the rollout has left the promoted wave, or is complete.
func isPromoted(changed *addonsv1.HelmOp) goal {
	revision := changed.Status.Rollout.Revision
	wave := *annotationFor(changed, addonsv1.RolloutPromoteAnnotation, revision)
	return func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		r, err := rolloutOf(helmOp, revision)
		switch {
		case err != nil:
			return false, "", err
		case r.Phase == addonsv1.RolloutPhaseComplete:
			return true, "", nil
		case fleetview.IsEnded(r.Phase):
			return false, "", refuse(helmOp, "the rollout of HelmOp revision %d is %s", revision, r.Phase)
		case r.Phase == addonsv1.RolloutPhasePaused:
			return false, "", refuse(helmOp, "the rollout of HelmOp revision %d is Paused: it waits for "+
				"%s", revision, fleetview.WaitingFor(r))
		case r.Wave == "" || waveIndex(helmOp, r.Wave) > waveIndex(helmOp, wave):
			return true, "", nil
		default:
			return false, fleetview.WaitingFor(r), nil
		}
	}
}

// continueRollout continues a rollout whose failure budget is spent. last is the value of the annotation that the
// manager handled last.
func continueRollout(last string) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		r, err := currentRollout(helmOp)
		if err != nil {
			return "", err
		}
		if r.Phase != addonsv1.RolloutPhasePaused {
			why := "so there is nothing to continue"
			if helmOp.Spec.Rollout != nil && helmOp.Spec.Rollout.Paused {
				why = "but spec.rollout.paused is set; use rollout resume"
			}
			return "", refuse(helmOp, "the rollout of HelmOp revision %d is %s, %s", r.Revision, phaseOf(r), why)
		}
		// The annotation to abort would pause the rollout again.
		if annotationFor(helmOp, addonsv1.RolloutAbortAnnotation, r.Revision) != nil {
			delete(helmOp.Annotations, addonsv1.RolloutAbortAnnotation)
		}
		annotate(helmOp, addonsv1.RolloutContinueAnnotation,
			nextContinue(r.Revision, helmOp.Annotations[addonsv1.RolloutContinueAnnotation], last))
		return fmt.Sprintf("rollout of HelmOp revision %d continued; %s", r.Revision,
			plural.Count(r.Failed, "failure no longer counts", "failures no longer count")), nil
	}
}

// nextContinue returns the first of the values "7", "7/2", "7/3" and so on that was not used before.
func nextContinue(revision int64, given ...string) string {
	value := strconv.FormatInt(revision, 10)
	for i := 2; slices.Contains(given, value); i++ {
		value = fmt.Sprintf("%d/%d", revision, i)
	}
	return value
}

func phaseOf(r *addonsv1.RolloutStatus) addonsv1.RolloutPhase {
	if r.Phase == "" {
		return addonsv1.RolloutPhaseProgressing
	}
	return r.Phase
}

// isContinued reports whether the manager has handled a request to continue the rollout of a revision.
func isContinued(revision *addonsv1.HelmOpRevision, value string) (bool, string, error) {
	switch {
	case revision.Status.LastContinueRequest == value:
		return true, "", nil
	case fleetview.IsEnded(revision.Status.Phase):
		return false, "", fmt.Errorf("HelmOp revision %d is %s; the rollout was not continued", revision.Spec.Number,
			revision.Status.Phase)
	default:
		return false, "the manager to continue the rollout", nil
	}
}

// abortRollout aborts the rollout: all Clusters return to the last known good revision.
func abortRollout(helmOp *addonsv1.HelmOp) (string, error) {
	r, err := currentRollout(helmOp)
	switch {
	case err != nil:
		return "", err
	case fleetview.IsEnded(r.Phase):
		return "", refuse(helmOp, "the rollout of HelmOp revision %d is %s, so there is nothing to abort; to return to "+
			"an earlier "+
			"HelmOp revision, use rollout undo", r.Revision, r.Phase)
	case r.LastGoodRevision == 0:
		return "", refuse(helmOp, "there is no last known good revision to return to; to stop changes, use rollout pause")
	}
	annotate(helmOp, addonsv1.RolloutAbortAnnotation, strconv.FormatInt(r.Revision, 10))
	return fmt.Sprintf("rollout of HelmOp revision %d aborted; the Clusters return to HelmOp revision %d", r.Revision,
		r.LastGoodRevision), nil
}

// isReturned reports whether the rollout is aborted and all Clusters have returned. The wait ends with an error if
// HelmOp waits for no Cluster any more, but a Cluster has not returned. releases reads the releases of the HelmOp.
func isReturned(changed *addonsv1.HelmOp, releases func() ([]*addonsv1.HelmOpRelease, error)) goal {
	revision := changed.Status.Rollout.Revision
	return func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		r, err := rolloutOf(helmOp, revision)
		switch {
		case err != nil:
			return false, "", err
		case r.Phase == addonsv1.RolloutPhaseComplete:
			return false, "", refuse(helmOp, "the rollout of HelmOp revision %d completed before it was aborted", revision)
		case !fleetview.IsEnded(r.Phase):
			return false, "the manager to abort the rollout", nil
		case r.WaitingFor != "":
			return false, fleetview.WaitingFor(r), nil
		}
		all, err := releases()
		if err != nil {
			return false, "", err
		}
		if others := notReturned(r, all); len(others) > 0 {
			return false, "", refuse(helmOp, "the rollout of HelmOp revision %d is %s, but HelmOp revision %d is not Ready in "+
				"%s; see status", revision, r.Phase, r.LastGoodRevision, ofClusters(others))
		}
		return true, "", nil
	}
}

// notReturned returns the Clusters that have not returned from a rollout. They still have its HelmOp revision, or their
// releases are not Ready since the return. Other unhealthy Clusters do not count, because the rollout did not reach
// them.
func notReturned(r *addonsv1.RolloutStatus, releases []*addonsv1.HelmOpRelease) []string {
	var titles []string
	for _, release := range releases {
		assigned := release.Spec.Rollout
		if assigned == nil || !release.DeletionTimestamp.IsZero() {
			continue
		}
		_, isPinned := apiutil.PinOf(release)
		isReturn := assigned.Revision == r.LastGoodRevision && assigned.Reason == addonsv1.ReleaseRolloutReturned &&
			!assigned.At.Before(&r.StartedAt)
		if assigned.Revision == r.Revision && !isPinned || isReturn && !apiutil.IsReadyNow(release) {
			titles = append(titles, apiutil.ClusterTitle(release))
		}
	}
	slices.Sort(titles)
	return titles
}

// setRolloutPaused sets spec.rollout.paused.
func setRolloutPaused(paused bool) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		if err := refuseDeleting(helmOp); err != nil {
			return "", err
		}
		if helmOp.Spec.Rollout == nil {
			return "", refuse(helmOp, "it has no spec.rollout: a change reaches all Clusters at once; to stop everything, "+
				"use pause")
		}
		was := helmOp.Spec.Rollout.Paused
		helmOp.Spec.Rollout.Paused = paused
		switch {
		case paused && was:
			return "rollout is already paused", nil
		case paused:
			return "rollout paused", nil
		case !was:
			return "rollout is not paused", nil
		default:
			return "rollout resumed", nil
		}
	}
}

// isObserved reports whether the manager has reconciled the changed spec.
func isObserved(changed *addonsv1.HelmOp) goal {
	return func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		if helmOp.Status.ObservedGeneration >= changed.Generation {
			return true, "", nil
		}
		return false, "the manager to reconcile the HelmOp", nil
	}
}

// confirmDeletions confirms the waiting deletions. confirmation is the value that the user has seen.
func confirmDeletions(confirmation string) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		d := helmOp.Status.Deletions
		if d == nil || d.Confirmation != confirmation {
			return "", refuse(helmOp, "the deletions that wait changed at the same time; repeat the command")
		}
		return confirmObjects(confirmation)(helmOp)
	}
}

// confirmObjects confirms the deletion of objects in the management cluster.
func confirmObjects(confirmation string) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		annotate(helmOp, addonsv1.ConfirmDeletionsAnnotation, confirmation)
		return "deletions confirmed", nil
	}
}

// otherDeletions is the error of a wait if other deletions are waiting now.
const otherDeletions = "the deletions that wait changed, so the confirmation has no effect; repeat the command"

// isConfirmed reports whether the deletions no longer wait.
func isConfirmed(confirmation string) goal {
	return func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		switch d := helmOp.Status.Deletions; {
		case d == nil || d.Waiting == 0:
			return true, "", nil
		case d.Confirmation != confirmation:
			return false, "", refuse(helmOp, "%s", otherDeletions)
		default:
			return false, fmt.Sprintf("the manager to begin the deletion of %s",
				plural.Count(d.Waiting, "release", "releases")), nil
		}
	}
}

// areObjectsConfirmed reports whether the release in the management cluster no longer waits for a confirmation.
func areObjectsConfirmed(release *addonsv1.HelmOpRelease, confirmation string) (bool, string, error) {
	switch waiting, _ := heldObjects(release); waiting {
	case "":
		return true, "", nil
	case confirmation:
		return false, "the manager to upgrade the release", nil
	default:
		return false, "", errors.New(otherDeletions)
	}
}
