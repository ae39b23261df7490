// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// adoptionWait is how long an uninstallation waits for the adoption by another HelmOp. An adoption takes seconds,
// unless something holds it, for example a dependency. A longer wait would keep a release that no HelmOp may want.
const adoptionWait = 30 * time.Second

// decideUninstall decides about a release under deletion. If another HelmOp is about to adopt the release, the
// uninstallation waits. Otherwise, a Cluster that passes from one HelmOp to the other would have no release until the
// other HelmOp has installed the release again. The adoption enqueues the HelmOpRelease, see
// [watches.ConflictingOnChange].
func (r *Reconciler) decideUninstall(ctx context.Context, scope *releaseScope, observation model.Observation,
	desired model.Desired,
) decide.Decision {
	now, since := r.now(), &r.memoryOf(scope.release).AdoptionAwaited
	decision := decide.Uninstall(observation, desired, model.Policy{PendingTimeout: releasespec.PendingTimeout}, now)
	var adopter *addonsv1.HelmOpRelease
	if decision.Reason == decide.ReasonUninstall && !scope.isClusterDeleting() {
		adopter = r.adopterOf(ctx, scope.release)
	}
	if adopter == nil {
		*since = time.Time{}
		return decision
	}
	if since.IsZero() {
		*since = now
	}
	end := since.Add(adoptionWait)
	if rest := end.Sub(now); rest > 0 {
		next, _ := releasespec.DesiredOf(adopter)
		decision.Action, decision.RequeueAfter, decision.NextTryAt = model.ActionWait, rest, end
		decision.Message = fmt.Sprintf("The uninstallation waits until %s at the latest, because HelmOp %q selects the "+
			"Cluster and may adopt the release (install.takeOwnership)", end.UTC().Format(time.RFC3339), next.Owner)
	}
	return decision
}

// adopterOf returns the HelmOpRelease of another HelmOp that adopts the release of a HelmOpRelease when it finds the
// release; nil if there is none. A HelmOp that had the release before and lost it does not adopt it.
func (r *Reconciler) adopterOf(ctx context.Context, release *addonsv1.HelmOpRelease) *addonsv1.HelmOpRelease {
	children := apiutil.ChildrenOfCluster(ctx, r.client, apiutil.ClusterKey(release))
	for i := range children {
		other := &children[i]
		if other.UID != release.UID && other.Spec.Release == release.Spec.Release && other.DeletionTimestamp.IsZero() &&
			releasespec.PolicyOf(&other.Spec).TakeOwnership && other.Status.Release == nil &&
			other.Annotations[addonsv1.LostToAnnotation] == "" {
			return other
		}
	}
	return nil
}
