// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/pinning"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// compiledRevision is a HelmOp revision that is ready to be rendered for Clusters.
type compiledRevision struct {
	// number is the number of the revision; 0 until the HelmOpRevision is known.
	number int64
	// digest changes if the rendered release of a Cluster may change.
	digest string
	helmOp *addonsv1.HelmOp
	*render.Program
	// artifactOf returns the artifact of a reference, or an error with the cause if there is none.
	artifactOf func(addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error)
}

// compileRevision compiles the spec of a HelmOp, with the artifacts of its references. The digest must be the same in
// the next version of HelmOp. Otherwise, each HelmOp would get a new HelmOp revision, each rollout would begin again,
// and the former HelmOp revisions could not be rendered any more. So if a field is added to the inputs later, their
// JSON must omit the field when it is not set.
func (r *Reconciler) compileRevision(ctx context.Context, helmOp *addonsv1.HelmOp,
	artifactOf func(addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error),
) (*compiledRevision, error) {
	program, err := r.renderer.Compile(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	w := &compiledRevision{helmOp: helmOp, Program: program, artifactOf: artifactOf}
	identities := []string{identityOf(artifactOf(helmOp.Spec.Source.Ref))}
	for _, ref := range program.Variants.References() {
		identities = append(identities, identityOf(artifactOf(ref.ArtifactReference)))
	}
	w.digest, err = apiutil.DigestOf(program.Digest, identities, helmOp.Spec.ReleaseOptions, helmOp.Spec.Overrides,
		helmOp.Spec.RefsByKubernetesVersion)
	return w, err
}

func identityOf(artifact *addonsv1.ResolvedArtifact, err error) string {
	if err != nil {
		return ""
	}
	return apiutil.ArtifactIdentity(artifact)
}

// compile sets the desired revision. While the desired revision is not known, releases are not changed.
func (r *Reconciler) compile(ctx context.Context, scope *helmOpScope) error {
	desired, err := r.compileRevision(ctx, scope.helmOp, scope.knownArtifactOf)
	if err != nil {
		return scope.takeProgramError(err)
	}
	if !scope.resolution.HasArtifacts() || scope.resolution.IsResolving() {
		return nil
	}
	scope.desired = desired
	return nil
}

// knownArtifactOf returns the artifact of a reference. If the reference cannot be resolved, it returns the artifact of
// the newest revision with the same source. After a move or a restore, the status has no artifact; an unreachable
// registry must then not cause another revision.
func (s *helmOpScope) knownArtifactOf(ref addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
	artifact, err := s.resolution.ArtifactOf(ref)
	if err == nil {
		return artifact, nil
	}
	if recorded := revisionstore.ArtifactOfSource(s.revisions.Newest(), &s.helmOp.Spec.Source, ref); recorded != nil {
		return recorded, nil
	}
	return nil, err
}

// mainArtifact returns the artifact of spec.source; nil if it is not known.
func (w *compiledRevision) mainArtifact() *addonsv1.ResolvedArtifact {
	artifact, err := w.artifactOf(w.helmOp.Spec.Source.Ref)
	if err != nil {
		return nil
	}
	return artifact
}

// takeProgramError stores an error that a user has to correct, and returns all other errors. After the correction, the
// event of the HelmOp or of a referenced object starts the next pass. A new permission has no event, so the pass is
// repeated for it.
func (s *helmOpScope) takeProgramError(err error) error {
	if outcome := failures.Of(err, failures.Compiling); outcome.Kind == failures.Failed {
		s.programErr = err
		s.retryWithin(outcome.Wait)
		return nil
	}
	return err
}

// desiredNumber returns the number of the desired revision; 0 if it is not known.
func (s *helmOpScope) desiredNumber() int64 {
	if s.desired == nil {
		return 0
	}
	return s.desired.number
}

// pastRevision is the result of compiling an older revision. compiledRevision is nil if the revision cannot be rendered
// any more. err is set if that is not known.
type pastRevision struct {
	*compiledRevision
	err error
}

// compiledAt returns the compiled revision with a number. It returns nil if objects in the valuesFrom of the revision
// changed after the revision was made. An error is transient: it needs no change by a user.
func (r *Reconciler) compiledAt(ctx context.Context, scope *helmOpScope, number int64) (*compiledRevision, error) {
	if scope.desired != nil && scope.desired.number == number {
		return scope.desired, nil
	}
	known, ok := scope.past[number]
	if !ok {
		if scope.past == nil {
			scope.past = map[int64]pastRevision{}
		}
		known.compiledRevision, known.err = r.compilePast(ctx, scope, number)
		scope.past[number] = known
	}
	return known.compiledRevision, known.err
}

// compilePast compiles an older revision. Only compiledAt calls it.
func (r *Reconciler) compilePast(ctx context.Context, scope *helmOpScope, number int64) (*compiledRevision, error) {
	revision := scope.revisions.Numbered(number)
	if revision == nil {
		return nil, nil
	}
	w, err := r.compileRevision(ctx, revisionstore.WithRevision(scope.helmOp, revision),
		revisionstore.ArtifactsOf(revision))
	switch {
	case failures.Of(err, failures.Compiling).Kind == failures.Failed:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("HelmOp revision %d: %w: %w", number, render.ErrObjectRead, err)
	case w.digest != revision.Spec.Digest:
		return nil, nil
	}
	w.number = number
	return w, nil
}

// render sets the desired spec of each Cluster. A pinned Cluster does not need a spec under the newest revision, which
// may not be valid for this Cluster. An error for one Cluster does not affect the others.
func (r *Reconciler) render(ctx context.Context, scope *helmOpScope) error {
	state := scope.rolloutState()
	for _, c := range scope.clusters {
		if !c.selected || c.err != nil || !c.cluster.DeletionTimestamp.IsZero() || !apiutil.IsInitialized(c.cluster) {
			continue
		}
		if _, pinned := apiutil.PinOf(c.child); pinned {
			if err := r.renderPinned(ctx, scope, c); err != nil {
				return err
			}
			continue
		}
		r.renderTarget(ctx, scope, c)
		own := apiutil.RevisionOf(c.child)
		switch own {
		case 0:
		case scope.desiredNumber():
			c.own = c.target
		default:
			c.own = r.renderPast(ctx, scope, own, c)
		}
		if state.Good != 0 && scope.needsGood(state.Phase, c.child) {
			r.renderGood(ctx, scope, state.Good, c)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// renderTarget renders the desired revision for a Cluster. While the desired revision is not known, other Clusters keep
// their releases, but a new or re-created Cluster gets the newest revision if its rollout is complete.
func (r *Reconciler) renderTarget(ctx context.Context, scope *helmOpScope, c *clusterScope) {
	c.rendered = tracing.Span{Name: tracing.SpanRender, Began: r.now()}
	switch newest := scope.revisions.Newest(); {
	case scope.desired != nil:
		c.target, c.err = r.renderFor(ctx, scope, scope.desired, c)
	case newest != nil && newest.Status.Phase == addonsv1.RolloutPhaseComplete &&
		(c.child == nil || apiutil.IsOfFormerCluster(c.child)):
		c.target, c.err = r.tryPast(ctx, scope, newest.Spec.Number, c)
	}
	c.rendered.Ended = r.now()
	scope.retryRendering(c.err)
}

// needsGood reports whether the plan needs the release of a Cluster under the last known good revision. Most Clusters
// do not need it. During a rollout, an unreachable Cluster needs it: a HelmOp revision that does not change the Cluster
// is not the reason why the Cluster is unreachable.
func (s *helmOpScope) needsGood(phase rollout.Phase, child *addonsv1.HelmOpRelease) bool {
	return child == nil || apiutil.IsOfFormerCluster(child) || returns(phase) || s.hasGivenUp(child) ||
		phase != rollout.PhaseComplete && rolloutstate.IsUnreachable(child)
}

// renderGood renders the last known good revision for a Cluster. After a transient error, another pass follows. The
// present pass goes on, because other Clusters do not need this release.
func (r *Reconciler) renderGood(ctx context.Context, scope *helmOpScope, number int64, c *clusterScope) {
	if c.own != nil && number == apiutil.RevisionOf(c.child) {
		c.good = c.own
		return
	}
	var err error
	c.good, err = r.tryPast(ctx, scope, number, c)
	c.goodPending = err != nil
	scope.retryWithin(failures.Of(err, failures.Planning).Wait)
}

// renderPinned renders a Cluster that a user has pinned to a HelmOp revision. It renders two revisions: the pinned
// revision and the current revision of the Cluster. If rendering fails for a transient reason, the pin is not refused,
// and the Cluster keeps its release.
func (r *Reconciler) renderPinned(ctx context.Context, scope *helmOpScope, c *clusterScope) error {
	number, _ := apiutil.PinOf(c.child)
	c.own = r.renderPast(ctx, scope, apiutil.RevisionOf(c.child), c)
	var pinned *addonsv1.HelmOpReleaseSpec
	switch number {
	case 0:
	case apiutil.RevisionOf(c.child):
		// The Cluster already has this revision. The pin is carried out even if the revision cannot be rendered now.
		pinned = c.own
	default:
		if pinned, c.err = r.tryPast(ctx, scope, number, c); c.err != nil {
			scope.retryRendering(c.err)
			return ctx.Err()
		}
	}
	release, err := rolloutstate.Release(pinned)
	if err != nil {
		return err
	}
	c.pinErr = pinning.WhyNot(&pinning.Pin{HelmOp: scope.helmOp, Revisions: scope.revisions,
		Cluster: c.name, Child: c.child, Own: c.own, Number: number, Release: release})
	if c.pinErr == nil {
		c.pinned = pinned
	}
	return nil
}

// retryRendering schedules another pass if an error of rendering is transient.
func (s *helmOpScope) retryRendering(err error) {
	if err == nil {
		return
	}
	switch outcome := failures.Of(err, failures.Planning); outcome.Kind {
	case failures.Waiting:
		s.pending = true
	default:
		s.retryWithin(outcome.Wait)
	}
}

// renderPast renders an older revision for a Cluster. The result is nil if the revision cannot be rendered.
func (r *Reconciler) renderPast(ctx context.Context, scope *helmOpScope, number int64,
	c *clusterScope,
) *addonsv1.HelmOpReleaseSpec {
	spec, err := r.tryPast(ctx, scope, number, c)
	if err != nil {
		return nil
	}
	return spec
}

// tryPast renders an older revision for a Cluster. The result is nil if the revision cannot be rendered any more. An
// error means that this is not known.
func (r *Reconciler) tryPast(ctx context.Context, scope *helmOpScope, number int64,
	c *clusterScope,
) (*addonsv1.HelmOpReleaseSpec, error) {
	w, err := r.compiledAt(ctx, scope, number)
	if w == nil || err != nil {
		return nil, err
	}
	spec, err := r.renderFor(ctx, scope, w, c)
	if err != nil && !failures.Of(err, failures.Planning).Passes && ctx.Err() == nil {
		return nil, nil
	}
	return spec, err
}

// renderFor renders a revision for a Cluster.
func (r *Reconciler) renderFor(ctx context.Context, scope *helmOpScope, w *compiledRevision,
	c *clusterScope,
) (*addonsv1.HelmOpReleaseSpec, error) {
	assigned := ""
	if c.child != nil {
		assigned = c.child.Spec.KubernetesVersion
	}
	rendered, chosen, objects := r.renderer.Outcome(ctx, w.Program, c.object, c.cluster, assigned)
	if objects != nil {
		r.watchKinds(ctx, objects.Watched)
	}
	if w == scope.desired {
		c.references = rendered.References
	}
	if rendered.Err != nil {
		return nil, rendered.Err
	}
	artifact, err := w.artifactOf(chosen.Ref)
	if err != nil {
		return nil, err
	}
	spec := w.ReleaseSpec(scope.helmOp, c.key, rendered, chosen, artifact)
	releasespec.KeepIdentity(spec, c.child)
	return spec, nil
}

// retryWithin schedules the next pass no later than after a delay. A delay of 0 has no effect.
func (s *helmOpScope) retryWithin(delay time.Duration) {
	s.requeueAfter = requeue.Sooner(s.requeueAfter, delay)
}

// watchKinds watches the kinds of the given objects. A change of such an object enqueues the HelmOps of its Cluster.
func (r *Reconciler) watchKinds(ctx context.Context, objects []*unstructured.Unstructured) {
	for _, obj := range objects {
		if err := r.kinds.Watch(obj.GroupVersionKind()); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot watch a kind that templates use; changes take effect at the next resync",
				"kind", obj.GroupVersionKind().String())
		}
	}
}

// handlerForClusterObjects returns a handler that enqueues the HelmOps of the Cluster to which an object belongs.
func (r *Reconciler) handlerForClusterObjects(pace *watches.Pace) handler.EventHandler {
	return watches.ClusterEvents(pace, func(ctx context.Context, obj client.Object) []ctrl.Request {
		return watches.RequestsForClusterObject(ctx, r.client, r.lookup, obj)
	})
}
