// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// compiledRevision is a revision of a HelmOp, which can be rendered for Clusters.
type compiledRevision struct {
	// number of the revision; 0 until the HelmOpRevision is known.
	number int64
	// digest changes whenever the rendered release of a Cluster may change.
	digest string
	helmOp *addonsv1.HelmOp
	*render.Program
	// artifactOf returns the artifact of a reference. The error is why there is none.
	artifactOf func(addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error)
}

// compileRevision compiles the spec of a HelmOp, with the artifacts of its references.
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

// knownArtifactOf returns the artifact of a reference. While the reference cannot be resolved, it returns the artifact
// that the newest revision has for the same source. After a move or a restore, the status has no artifact, and an
// unreachable registry must not cause another revision.
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

// takeProgramError stores an error that a user has to correct, and returns all other errors. After a correction, an
// event of the HelmOp or of an object that the HelmOp refers to starts the next pass.
func (s *helmOpScope) takeProgramError(err error) error {
	if failures.Of(err, failures.Compiling).Kind == failures.Failed {
		s.programErr = err
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

// pastRevision is an older revision, ready to render; nil if it cannot be rendered any more. err is why it is not known
// whether it can.
type pastRevision struct {
	*compiledRevision
	err error
}

// compiledAt returns the compiled revision with a number; nil if the objects in its valuesFrom have changed since. The
// error passes without a change by a user.
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

// compilePast compiles an older revision for compiledAt.
func (r *Reconciler) compilePast(ctx context.Context, scope *helmOpScope, number int64) (*compiledRevision, error) {
	revision := scope.revisions.Numbered(number)
	if revision == nil {
		return nil, nil
	}
	w, err := r.compileRevision(ctx, revisionstore.WithRevision(scope.helmOp, revision),
		revisionstore.ArtifactsOf(revision))
	switch {
	case err != nil && failures.Of(err, failures.Compiling).Kind == failures.Failed,
		errors.Is(err, references.ErrReferenceForbidden):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("HelmOp revision %d: %w: %w", number, render.ErrObjectRead, err)
	case w.digest != revision.Spec.Digest:
		return nil, nil
	}
	w.number = number
	return w, nil
}

// render sets the desired spec of each Cluster. A pinned Cluster needs no spec under the current revision, which may
// not be renderable for it. An error for one Cluster does not affect the others.
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
		if scope.desired != nil {
			c.rendered = tracing.Span{Name: tracing.SpanRender, Began: r.now()}
			c.target, c.err = r.renderFor(ctx, scope, scope.desired, c)
			c.rendered.Ended = r.now()
			scope.retryRendering(c.err)
		}
		own := apiutil.RevisionOf(c.child)
		if own != 0 && (scope.desired == nil || own != scope.desired.number) {
			c.own = r.renderPast(ctx, scope, own, c)
		}
		isGoodNeeded := c.child == nil || returns(state.Phase)
		switch {
		case state.Good == 0 || !isGoodNeeded:
		case state.Good == own:
			c.good = c.own
		default:
			c.good = r.renderPast(ctx, scope, state.Good, c)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// renderPinned renders a Cluster that a user has pinned to a HelmOp revision: under that revision, and under the
// revision that it has. While it is not known whether the pin can be carried out, the pin is not refused, and the
// Cluster keeps what it has.
func (r *Reconciler) renderPinned(ctx context.Context, scope *helmOpScope, c *clusterScope) error {
	number, _ := apiutil.PinOf(c.child)
	c.own = r.renderPast(ctx, scope, apiutil.RevisionOf(c.child), c)
	var pinned *addonsv1.HelmOpReleaseSpec
	switch number {
	case 0:
	case apiutil.RevisionOf(c.child):
		// The pin is carried out, whether or not the revision can be rendered now.
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

// retryRendering schedules another pass if an error of rendering passes by itself.
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

// tryPast renders an older revision for a Cluster. The result is nil if the revision can no longer be rendered. The
// error is why it is not known whether it can.
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
	return w.ReleaseSpec(scope.helmOp, c.key, rendered, chosen, artifact), nil
}

// retryWithin schedules the next pass no later than after a delay. A delay of 0 has no effect.
func (s *helmOpScope) retryWithin(delay time.Duration) {
	s.requeueAfter = requeue.Sooner(s.requeueAfter, delay)
}

// watchKinds watches the kinds of objects, so that changes of the objects enqueue the HelmOps of their Clusters.
func (r *Reconciler) watchKinds(ctx context.Context, objects []*unstructured.Unstructured) {
	for _, obj := range objects {
		if err := r.kinds.Watch(obj.GroupVersionKind()); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot watch a kind that templates use; changes take effect at the next resync",
				"kind", obj.GroupVersionKind().String())
		}
	}
}

// handlerForClusterObjects enqueues the HelmOps of the Cluster that an object belongs to.
func (r *Reconciler) handlerForClusterObjects() handler.EventHandler {
	return watches.Delayed(func(ctx context.Context, obj client.Object) []ctrl.Request {
		return watches.RequestsForClusterObject(ctx, r.client, obj)
	})
}
