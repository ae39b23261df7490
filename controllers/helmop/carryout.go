// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// concurrentWrites is how many releases a pass writes at the same time. One after the other, the last of a thousand
// Clusters would wait for ten seconds.
const concurrentWrites = 4

// carryOutAll carries out the plan, first for the Clusters that answer: these can begin, and the others have to wait
// anyway.
func (r *Reconciler) carryOutAll(ctx context.Context, scope *helmOpScope) []error {
	var order, silent []int
	for i, step := range scope.plan.Steps {
		c := scope.clusters[i]
		c.step = step
		if isAsPlanned(scope, c) || r.waitsForMove(scope, c) {
			continue
		}
		if r.answers == nil || r.answers(c.key) {
			order = append(order, i)
		} else {
			silent = append(silent, i)
		}
	}
	errs := make([]error, len(scope.clusters))
	var writes errgroup.Group
	writes.SetLimit(concurrentWrites)
	for _, i := range append(order, silent...) {
		c := scope.clusters[i]
		writes.Go(func() error {
			_, err := async.Guarded(ctx, func(ctx context.Context) (struct{}, error) {
				return struct{}{},
					r.carryOutIfOurs(ctx, scope, c)
			})
			if err != nil {
				err = fmt.Errorf("%w: %w", reasons.ErrRecord, err)
				if c.err == nil {
					c.err = err
				}
				errs[i] = fmt.Errorf("in Cluster %s: %w", c.name, err)
			}
			return nil
		})
	}
	_ = writes.Wait() // The errors are in errs, by Cluster.
	return errs
}

// waitsForMove reports whether a release is not created because clusterctl move has just deleted it here: it deletes
// the HelmOp next.
func (r *Reconciler) waitsForMove(scope *helmOpScope, c *clusterScope) bool {
	if c.step.Action != rollout.ActionCreate {
		return false
	}
	rest := r.moved.rest(client.ObjectKey{Namespace: scope.helmOp.Namespace,
		Name: apiutil.ChildName(scope.helmOp.Name, c.name)}, r.now())
	if rest > 0 && (scope.requeueAfter == 0 || scope.requeueAfter > rest) {
		scope.requeueAfter = rest
	}
	return rest > 0
}

// carryOutIfOurs is carryOut, unless the HelmOp is gone or of another shard: to write a thousand releases takes
// seconds, and another manager may bring them into its shard meanwhile.
func (r *Reconciler) carryOutIfOurs(ctx context.Context, scope *helmOpScope, c *clusterScope) error {
	err := r.client.Get(ctx, client.ObjectKeyFromObject(scope.helmOp), &addonsv1.HelmOp{}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.carryOut(ctx, scope, c)
}

// carryOut carries out the step for one Cluster. It runs for several Clusters in parallel, and changes the scope of
// its Cluster only.
func (r *Reconciler) carryOut(ctx context.Context, scope *helmOpScope, c *clusterScope) error {
	log := ctrl.LoggerFrom(ctx).WithValues("Cluster", c.name, "why", c.step.Why)
	switch c.step.Action {
	case rollout.ActionCreate, rollout.ActionUpdate:
		spec, err := r.releaseSpecFor(scope, c)
		if err != nil {
			return err
		}
		if c.step.Action == rollout.ActionCreate {
			log.Info("Creating a release", "revision", c.step.Revision)
			return r.createChild(ctx, scope.helmOp, c, spec)
		}
		log.Info("Updating a release", "revision", c.step.Revision)
		return r.updateChild(ctx, scope.helmOp, c, spec)
	case rollout.ActionReplace:
		log.Info("Ending a release, for another one to follow", "revision", c.step.Revision)
		return apiutil.ReplaceChild(ctx, r.client, c.child, c.step.Revision)
	case rollout.ActionDelete:
		log.Info("Ending a release")
		return client.IgnoreNotFound(r.client.Delete(ctx, c.child))
	default:
		return r.repairChild(ctx, scope.helmOp, c.child)
	}
}

// isAsPlanned reports whether there is nothing to do for a Cluster: in most passes that holds for most of them.
func isAsPlanned(scope *helmOpScope, c *clusterScope) bool {
	switch {
	case c.step.Action != rollout.ActionNone:
		return false
	case c.child == nil || c.object == nil || apiutil.IsClusterPaused(c.cluster):
		return true
	default:
		return isKnownAs(scope.helmOp, c.child)
	}
}

// releaseSpecFor is the spec that a step writes into the release of a Cluster.
func (r *Reconciler) releaseSpecFor(scope *helmOpScope, c *clusterScope) (addonsv1.HelmOpReleaseSpec, error) {
	spec, err := stepSpec(scope, c)
	if err != nil {
		return addonsv1.HelmOpReleaseSpec{}, err
	}
	told := &addonsv1.ReleaseRollout{Revision: c.step.Revision, Reason: addonsv1.ReleaseRolloutUpdated,
		FailedBefore: c.step.FailedBefore}
	switch {
	case c.step.Joined:
		told.Reason = addonsv1.ReleaseRolloutJoined
	case c.step.Returned:
		told.Reason = addonsv1.ReleaseRolloutReturned
	}
	told.At = metav1.NewTime(r.now())
	spec.Rollout = told
	if c.child == nil {
		return spec, nil
	}
	// The answer to a write is decoded into what was sent.
	told.Previous = previousOf(c.child, scope.lastGood()).DeepCopy()
	known := c.child.Spec.Rollout
	if known == nil {
		return spec, nil
	}
	if known.Revision == told.Revision {
		// The Cluster itself changed: the reason and the time of the revision stay.
		told.Reason, told.FailedBefore = known.Reason, known.FailedBefore
	}
	if isSame, err := haveSameContent(&c.child.Spec, &spec); err != nil || isSame {
		told.At = known.At
		return spec, err
	}
	return spec, nil
}

// haveSameContent reports whether two specs install the same.
func haveSameContent(a, b *addonsv1.HelmOpReleaseSpec) (bool, error) {
	before, err := apiutil.ContentDigest(a)
	if err != nil {
		return false, err
	}
	after, err := apiutil.ContentDigest(b)
	return before == after, err
}

// previousOf is the spec of a release under the last known good revision, as far as it is known.
func previousOf(child *addonsv1.HelmOpRelease, good int64) *addonsv1.PreviousRevision {
	known := child.Spec.Rollout
	switch {
	case known == nil || good == 0:
		return nil
	case known.Revision == good:
		return &addonsv1.PreviousRevision{
			Revision: good, Artifact: child.Spec.Artifact, ValuesDigest: child.Spec.ValuesDigest,
			PostRenderDigest: child.Spec.PostRenderDigest,
		}
	case known.Previous != nil && known.Previous.Revision == good:
		return known.Previous
	default:
		return nil
	}
}

// stepSpec is the spec of the revision that a step assigns to a Cluster.
func stepSpec(scope *helmOpScope, c *clusterScope) (addonsv1.HelmOpReleaseSpec, error) {
	var spec *addonsv1.HelmOpReleaseSpec
	switch c.step.Source {
	case rollout.SourceGood:
		spec = c.good
	case rollout.SourceOwn:
		spec = c.own
	case rollout.SourcePrevious:
		return previousSpec(scope, c)
	default:
		spec = c.target
	}
	if spec == nil {
		return addonsv1.HelmOpReleaseSpec{}, fmt.Errorf("it is not known what revision %d wants", c.step.Revision)
	}
	return *spec.DeepCopy(), nil
}

// previousSpec is what the child keeps of the last known good revision. The sources of its values have changed since,
// so they cannot be rendered any more; the history of Helm has them.
func previousSpec(scope *helmOpScope, c *clusterScope) (addonsv1.HelmOpReleaseSpec, error) {
	previous, revision := previousOf(c.child, c.step.Revision).DeepCopy(), scope.revision(c.step.Revision)
	if previous == nil || revision == nil {
		return addonsv1.HelmOpReleaseSpec{},
			fmt.Errorf("it is not known any more what the Cluster had under revision %d", c.step.Revision)
	}
	spec := *c.child.Spec.DeepCopy()
	spec.Artifact, spec.ValuesDigest, spec.PostRenderDigest = previous.Artifact, previous.ValuesDigest,
		previous.PostRenderDigest
	variants, err := render.NewVariants(&revision.Spec.HelmOp)
	if err != nil {
		return addonsv1.HelmOpReleaseSpec{}, err
	}
	chosen, err := variants.Of(c.cluster.Labels, c.child.Spec.KubernetesVersion)
	spec.ReleaseOptions = *chosen.Options.DeepCopy()
	actAs(&spec.ReleaseOptions, &scope.helmOp.Spec)
	return spec, err
}
