// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// concurrentWrites is the number of releases that a pass writes at the same time. With one write after the other, the
// last of a thousand Clusters would wait for ten seconds.
const concurrentWrites = 4

// turn is the order in which a pass carries out the steps of a plan. A thousand writes take many seconds.
type turn int

const (
	// turnNew is for releases that do not exist yet: a new Cluster must not wait until all others are written.
	turnNew turn = iota
	// turnChanged is for releases that change in their Cluster.
	turnChanged
	// turnSame is for releases that only get another number of a HelmOp revision.
	turnSame
	// turnUnreachable is for releases in unreachable Clusters: these releases have to wait anyway.
	turnUnreachable
	turns
)

// applyPlan carries out the plan, turn by turn.
func (r *Reconciler) applyPlan(ctx context.Context, scope *helmOpScope) error {
	var order [turns][]int
	for i, step := range scope.plan.Steps {
		c := scope.clusters[i]
		c.step = step
		if isAsPlanned(scope, c) || r.waitsForMove(scope, c) {
			continue
		}
		turn := r.turnOf(scope, c)
		order[turn] = append(order[turn], i)
	}
	return r.writeEach(ctx, scope, slices.Concat(order[:]...),
		func(ctx context.Context, c *clusterScope) error { return r.applyStep(ctx, scope, c) })
}

// turnOf returns the turn of the step of a Cluster.
func (r *Reconciler) turnOf(scope *helmOpScope, c *clusterScope) turn {
	switch {
	case r.answers != nil && !r.answers(c.key):
		return turnUnreachable
	case c.step.Action == rollout.ActionCreate:
		return turnNew
	case c.step.Action == rollout.ActionUpdate && c.child != nil:
		spec, err := stepSpec(scope, c)
		if err != nil {
			return turnChanged // The step fails with this error.
		}
		if isSame, err := haveSameContent(&c.child.Spec, &spec); err == nil && isSame {
			return turnSame
		}
	}
	return turnChanged
}

// writeEach calls write for the Clusters with the given indices, for several Clusters in parallel. write changes only
// the scope of its Cluster. The result combines the errors, in the order of the Clusters.
func (r *Reconciler) writeEach(ctx context.Context, scope *helmOpScope, indices []int,
	write func(context.Context, *clusterScope) error,
) error {
	errs := make([]error, len(scope.clusters))
	var writes errgroup.Group
	writes.SetLimit(concurrentWrites)
	for _, i := range indices {
		c := scope.clusters[i]
		writes.Go(func() error {
			_, err := async.Guarded(ctx, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, r.writeIfInShard(ctx, scope, c, write)
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
	_ = writes.Wait() // errs has the errors, by Cluster.
	return failures.Join(errs)
}

// waitsForMove reports whether clusterctl move has just deleted the release of a Cluster. The release is then not
// created again, because clusterctl move deletes the HelmOp next.
func (r *Reconciler) waitsForMove(scope *helmOpScope, c *clusterScope) bool {
	if c.step.Action != rollout.ActionCreate {
		return false
	}
	rest := r.moved.Rest(client.ObjectKey{Namespace: scope.helmOp.Namespace,
		Name: apiutil.ChildName(scope.helmOp.Name, c.name)}, r.now())
	scope.retryWithin(rest)
	return rest > 0
}

// writeIfInShard calls write if the HelmOp still exists in the shard of this manager. Otherwise, it does nothing. The
// check is repeated for each release: writing a thousand releases takes seconds, and in this time the HelmOp may change
// its shard.
func (r *Reconciler) writeIfInShard(ctx context.Context, scope *helmOpScope, c *clusterScope,
	write func(context.Context, *clusterScope) error,
) error {
	err := r.client.Get(ctx, client.ObjectKeyFromObject(scope.helmOp), &addonsv1.HelmOp{}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return write(ctx, c)
}

// applyStep carries out the step for one Cluster. It runs for several Clusters in parallel, and changes only the scope
// of its Cluster.
func (r *Reconciler) applyStep(ctx context.Context, scope *helmOpScope, c *clusterScope) error {
	log := ctrl.LoggerFrom(ctx).WithValues("Cluster", c.name, "why", c.step.Why)
	switch c.step.Action {
	case rollout.ActionCreate, rollout.ActionUpdate:
		spec, err := r.releaseSpecFor(scope, c)
		if err != nil {
			return err
		}
		known, began := apiutil.RevisionOf(c.child), r.now()
		if c.step.Action == rollout.ActionCreate {
			log.Info("Creating a release", "revision", c.step.Revision)
			err = r.createChild(ctx, scope.helmOp, c, spec)
		} else {
			log.Info("Updating a release", "revision", c.step.Revision)
			err = r.updateChild(ctx, scope.helmOp, c, spec)
		}
		if err == nil && apiutil.RevisionOf(c.child) != known {
			r.traceAssignment(scope, c, began)
		}
		return err
	case rollout.ActionReplace, rollout.ActionDelete:
		if metav1.GetControllerOfNoCopy(c.child) == nil {
			// A restore can lose the reference. Without it, the deletion would leave the release installed.
			if err := r.repairChild(ctx, scope.helmOp, c.child); err != nil {
				return err
			}
		}
		if c.step.Action == rollout.ActionReplace {
			log.Info("Deleting a release, to create another release in its place", "revision", c.step.Revision)
			return apiutil.ReplaceChild(ctx, r.client, c.child, c.step.Revision)
		}
		log.Info("Deleting a release")
		return client.IgnoreNotFound(r.client.Delete(ctx, c.child, client.Preconditions{UID: &c.child.UID}))
	default:
		return r.repairChild(ctx, scope.helmOp, c.child)
	}
}

// foundRecently is the longest time between the end of a lookup and the start of the HelmOp revision that it led to. An
// older lookup is not a part of the traces of the revision.
const foundRecently = time.Minute

// traceAssignment adds the steps of this controller to the trace of a HelmOp revision in a Cluster.
func (r *Reconciler) traceAssignment(scope *helmOpScope, c *clusterScope, began time.Time) {
	assigned := r.tracer.Of(c.child)
	found := &scope.resolution
	if isLookupOf(scope.revisions.Numbered(c.step.Revision), found.FoundEnded) {
		assigned.Add(tracing.Span{Name: tracing.SpanResolve, Began: found.FoundBegan, Ended: found.FoundEnded})
	}
	if c.step.Source == rollout.SourceTarget {
		assigned.Add(c.rendered)
	}
	assigned.Add(tracing.Span{Name: tracing.SpanAssign, Began: began, Ended: r.now()})
}

// isLookupOf reports whether a lookup that ended at the given time led to a HelmOp revision. The API server stores the
// start of the revision in whole seconds.
func isLookupOf(revision *addonsv1.HelmOpRevision, ended time.Time) bool {
	if revision == nil {
		return false
	}
	before := revision.Status.StartedAt.Sub(ended)
	return before > -time.Second && before < foundRecently
}

// isAsPlanned reports whether a Cluster needs no step. In most passes, most Clusters need none.
func isAsPlanned(scope *helmOpScope, c *clusterScope) bool {
	switch {
	case c.step.Action != rollout.ActionNone:
		return false
	case c.child == nil || c.object == nil || apiutil.IsClusterPaused(c.cluster) ||
		waitsForFormerOwner(scope.helmOp, c.child):
		return true
	default:
		return needsNoRepair(scope.helmOp, c.child)
	}
}

// releaseSpecFor returns the spec that a step writes into the release of a Cluster.
func (r *Reconciler) releaseSpecFor(scope *helmOpScope, c *clusterScope) (addonsv1.HelmOpReleaseSpec, error) {
	spec, err := stepSpec(scope, c)
	if err != nil {
		return addonsv1.HelmOpReleaseSpec{}, err
	}
	assigned := &addonsv1.ReleaseRollout{Revision: c.step.Revision, Reason: addonsv1.ReleaseRolloutUpdated,
		FailedBefore: c.step.FailedBefore}
	switch {
	case c.step.Joined:
		assigned.Reason = addonsv1.ReleaseRolloutJoined
	case c.step.Returned:
		assigned.Reason = addonsv1.ReleaseRolloutReturned
	case c.step.Pinned:
		assigned.Reason = addonsv1.ReleaseRolloutPinned
	}
	assigned.At = metav1.NewTime(r.now())
	spec.Rollout = assigned
	if c.child == nil {
		return spec, nil
	}
	// The copy is necessary: the client decodes the response to a write into the object that was sent.
	assigned.Previous = previousOf(c.child, scope.revisions.LastGood()).DeepCopy()
	// The clock of the manager that found the re-created Cluster may be ahead.
	if recreatedAt := c.child.Status.ClusterRecreatedAt; assigned.At.Before(&recreatedAt) {
		assigned.At = recreatedAt
	}
	known := c.child.Spec.Rollout
	if known == nil || apiutil.IsOfFormerCluster(c.child) {
		return spec, nil
	}
	isSame, err := haveSameContent(&c.child.Spec, &spec)
	if err != nil {
		return spec, err
	}
	if known.Revision == assigned.Revision && !c.step.Adopts {
		// The Cluster caused the change of the spec, not the revision. So the reason stays, unless a return has ended: the
		// new content may never have worked, so its upgrade is not a return.
		assigned.FailedBefore = known.FailedBefore
		if isSame || !attempts.HasReturned(c.child) {
			assigned.Reason = known.Reason
		}
	}
	if isSame {
		assigned.At = known.At
		if assigned.Reason == addonsv1.ReleaseRolloutUpdated && !c.step.Adopts && attempts.IsReturning(c.child) {
			// Another revision with the same content does not end a return.
			assigned.Reason = known.Reason
		}
	}
	return spec, nil
}

// haveSameContent reports whether two specs install the same content.
func haveSameContent(a, b *addonsv1.HelmOpReleaseSpec) (bool, error) {
	before, err := apiutil.ContentDigest(a)
	if err != nil {
		return false, err
	}
	after, err := apiutil.ContentDigest(b)
	return before == after, err
}

// previousOf returns the known part of the spec that a release has under the last known good revision. It returns nil
// if nothing is known.
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

// stepSpec returns the spec of the revision that a step assigns to a Cluster.
func stepSpec(scope *helmOpScope, c *clusterScope) (addonsv1.HelmOpReleaseSpec, error) {
	var spec *addonsv1.HelmOpReleaseSpec
	switch c.step.Source {
	case rollout.SourceGood:
		spec = c.good
	case rollout.SourceOwn:
		spec = c.own
	case rollout.SourcePin:
		spec = c.pinned
	case rollout.SourcePrevious:
		return previousSpec(scope, c)
	default:
		spec = c.target
	}
	if spec == nil {
		return addonsv1.HelmOpReleaseSpec{}, fmt.Errorf("the release of HelmOp revision %d cannot be "+
			"rendered", c.step.Revision)
	}
	return *spec.DeepCopy(), nil
}

// previousSpec returns the spec under the last known good revision, from the copy in the child. The sources of the
// values changed after the child got this spec, so this manager cannot render the values any more. Helm's history has
// the values.
func previousSpec(scope *helmOpScope, c *clusterScope) (addonsv1.HelmOpReleaseSpec, error) {
	previous, revision := previousOf(c.child, c.step.Revision).DeepCopy(), scope.revisions.Numbered(c.step.Revision)
	if previous == nil || revision == nil {
		return addonsv1.HelmOpReleaseSpec{},
			fmt.Errorf("the spec that the release had under HelmOp revision %d is no longer known", c.step.Revision)
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
	render.SetImpersonation(&spec.ReleaseOptions, &scope.helmOp.Spec)
	return spec, err
}
