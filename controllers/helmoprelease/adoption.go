// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasememory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

// adoptionWait is how long an uninstallation waits for the adoption by another HelmOp. An adoption takes seconds,
// unless something holds it, for example a dependency. A longer wait would keep a release that the user may want to
// remove.
const adoptionWait = 30 * time.Second

// adoptionLimit is how long an uninstallation waits if a concurrency limit or the rollout delays the adoption. When a
// fleet passes from one HelmOp to another, most adoptions wait for some minutes.
const adoptionLimit = 10 * time.Minute

// decideUninstall decides about a release under deletion. If another HelmOp is about to adopt the release, the
// uninstallation waits. Otherwise, a Cluster that passes from one HelmOp to the other would have no release until the
// other HelmOp has installed the release again. The adoption enqueues the HelmOpRelease, see
// [watches.ConflictingOnChange].
func (r *Reconciler) decideUninstall(ctx context.Context, scope *releaseScope, observation model.Observation,
	desired model.Desired,
) decide.Decision {
	now, wait := r.now(), &r.memoryOf(scope.release).Adoption
	decision := decide.Uninstall(observation, desired, model.Policy{PendingTimeout: releasespec.PendingTimeout}, now)
	var adopter *addonsv1.HelmOpRelease
	if decision.Reason == decide.ReasonUninstall && !scope.isClusterDeleting() {
		adopter = r.adopterOf(ctx, scope.release)
	}
	if adopter == nil {
		*wait = releasememory.AdoptionWait{}
		return decision
	}
	end := adoptionEnd(wait, adopter, now)
	if rest := end.Sub(now); rest > 0 {
		next, _ := releasespec.DesiredOf(adopter)
		decision.Action, decision.NextTryAt = model.ActionWait, end
		// No event enqueues the HelmOpRelease when the adopter gets its slot or fails.
		decision.RequeueAfter = min(rest, adoptionWait)
		decision.Message = fmt.Sprintf("The uninstallation waits until %s at the latest, because HelmOp %q selects the "+
			"Cluster and may adopt the release (install.takeOwnership)", end.UTC().Format(time.RFC3339), next.Owner)
	}
	return decision
}

// adoptionEnd updates the wait for an adoption, and returns its end. adoptionWait begins when the adopter no longer
// waits for its turn.
func adoptionEnd(wait *releasememory.AdoptionWait, adopter *addonsv1.HelmOpRelease, now time.Time) time.Time {
	if wait.Since.IsZero() {
		wait.Since = now
	}
	limit := wait.Since.Add(adoptionLimit)
	if releasestatus.AwaitsTurn(adopter) {
		wait.AllowedSince = time.Time{}
		return limit
	}
	if wait.AllowedSince.IsZero() {
		wait.AllowedSince = now
	}
	if end := wait.AllowedSince.Add(adoptionWait); end.Before(limit) {
		return end
	}
	return limit
}

// adopterOf returns the HelmOpRelease of another HelmOp that adopts the release of a HelmOpRelease when it finds the
// release; nil if there is none. A HelmOp that had the release before and lost it, or may not access the Cluster, does
// not adopt it.
func (r *Reconciler) adopterOf(ctx context.Context, release *addonsv1.HelmOpRelease) *addonsv1.HelmOpRelease {
	children := apiutil.ChildrenOfCluster(ctx, r.client, apiutil.ClusterKey(release))
	for i := range children {
		other := &children[i]
		if other.UID != release.UID && other.Spec.Release == release.Spec.Release && other.DeletionTimestamp.IsZero() &&
			releasespec.PolicyOf(&other.Spec).TakeOwnership && other.Status.Release == nil &&
			other.Annotations[addonsv1.LostToAnnotation] == "" &&
			conditions.GetReason(other, addonsv1.ReadyCondition) != addonsv1.ClusterAccessDeniedReason {
			return other
		}
	}
	return nil
}
