/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

	http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/
package controllers

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// objectReadRetry is the wait before an object that a Cluster refers to and that cannot be read is read again: nothing
// tells when it appears.
const objectReadRetry = 15 * time.Second

// errInvalidOverride wraps what is malformed in overrides and kubernetesVersions.
var errInvalidOverride = errors.New("invalid override")

// errNotResolved says that it is not known what the reference stands for that a Cluster needs.
var errNotResolved = errors.New("not resolved")

// wantedRevision is what a revision of a HelmOp wants, ready to meet Clusters.
type wantedRevision struct {
	// number of the revision; 0 until the HelmOpRevision is known.
	number int64
	// digest changes whenever the outcome for any Cluster might.
	digest string
	helmOp *addonsv1.HelmOp
	*program
	artifact  *addonsv1.ResolvedArtifact
	artifacts []addonsv1.ReferencedArtifact
}

// newWanted compiles what a HelmOp wants, with what its references stand for.
func (r *helmOpReconciler) newWanted(ctx context.Context, helmOp *addonsv1.HelmOp, artifact *addonsv1.ResolvedArtifact,
	artifacts []addonsv1.ReferencedArtifact,
) (*wantedRevision, error) {
	program, err := r.renderer.compile(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	w := &wantedRevision{helmOp: helmOp, program: program, artifact: artifact, artifacts: artifacts}
	identities := make([]string, 0, len(artifacts))
	for i := range artifacts {
		identities = append(identities, artifactIdentity(&artifacts[i].ResolvedArtifact))
	}
	w.digest, err = digestOf(program.digest, artifactIdentity(artifact), helmOp.Spec.ReleaseOptions, helmOp.Spec.Overrides,
		helmOp.Spec.KubernetesVersions, identities)
	return w, err
}

// compile finds out what is wanted of all Clusters. While that is not known, releases stay as they are.
func (r *helmOpReconciler) compile(ctx context.Context, scope *helmOpScope) error {
	if scope.artifact == nil {
		_, err := r.renderer.compile(ctx, scope.helmOp)
		return scope.takeProgramError(err)
	}
	wanted, err := r.newWanted(ctx, scope.helmOp, scope.artifact, scope.helmOp.Status.Artifacts)
	if err != nil {
		return scope.takeProgramError(err)
	}
	scope.wanted, scope.helmOp.Status.Revision = wanted, wanted.digest
	return nil
}

// takeProgramError keeps an error that somebody has to mend: an event of the HelmOp or of what it refers to brings the next pass.
func (s *helmOpScope) takeProgramError(err error) error {
	var invalid *templating.Error
	if errors.As(err, &invalid) || errors.Is(err, errReferenceNotFound) || errors.Is(err, errInvalidOverride) {
		s.programErr = err
		return nil
	}
	return err
}

// wantedNumber is the number of the revision that is wanted; 0 if that is not known.
func (s *helmOpScope) wantedNumber() int64 {
	if s.wanted == nil {
		return 0
	}
	return s.wanted.number
}

// wantedAt is what a revision wants; nil if that cannot be told any more, because what its valuesFrom name has changed since.
func (r *helmOpReconciler) wantedAt(ctx context.Context, scope *helmOpScope, number int64) *wantedRevision {
	if scope.wanted != nil && scope.wanted.number == number {
		return scope.wanted
	}
	if known, ok := scope.past[number]; ok {
		return known
	}
	if scope.past == nil {
		scope.past = map[int64]*wantedRevision{}
	}
	scope.past[number] = nil
	revision := scope.revision(number)
	if revision == nil || revision.Spec.Artifact == nil {
		return nil
	}
	w, err := r.newWanted(ctx, withRevision(scope.helmOp, revision), revision.Spec.Artifact, revision.Spec.Artifacts)
	if err != nil || w.digest != revision.Spec.Digest {
		return nil
	}
	w.number = number
	scope.past[number] = w
	return w
}

// render finds out what each Cluster is to have. What fails for one Cluster is that Cluster's own trouble.
func (r *helmOpReconciler) render(ctx context.Context, scope *helmOpScope) error {
	state := scope.rolloutState()
	for _, c := range scope.clusters {
		if !c.selected || c.err != nil || !c.cluster.DeletionTimestamp.IsZero() || !isInitialized(c.cluster) {
			continue
		}
		if scope.wanted != nil {
			c.target, c.err = r.renderFor(ctx, scope, scope.wanted, c)
			if errors.Is(c.err, errObjectRead) {
				scope.retryWithin(objectReadRetry)
			}
		}
		own := revisionOf(c.child)
		if own != 0 && (scope.wanted == nil || own != scope.wanted.number) {
			c.own = r.renderPast(ctx, scope, own, c)
		}
		isGoodWanted := c.child == nil || state.Phase == rollout.PhaseRolledBack || state.Phase == rollout.PhaseAborted || state.Phase == rollout.PhasePaused
		switch {
		case state.Good == 0 || !isGoodWanted:
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

// renderPast renders what a revision wants that is not wanted any more. That it cannot be rendered is no trouble.
func (r *helmOpReconciler) renderPast(ctx context.Context, scope *helmOpScope, number int64, c *clusterScope) *addonsv1.HelmOpReleaseSpec {
	w := r.wantedAt(ctx, scope, number)
	if w == nil {
		return nil
	}
	spec, err := r.renderFor(ctx, scope, w, c)
	if err != nil {
		return nil
	}
	return spec
}

// renderFor renders what a revision wants of a Cluster.
func (r *helmOpReconciler) renderFor(ctx context.Context, scope *helmOpScope, w *wantedRevision, c *clusterScope) (*addonsv1.HelmOpReleaseSpec, error) {
	rendered, objects := r.renderer.outcome(ctx, w.program, c.object, c.cluster)
	if objects != nil {
		r.watchKinds(ctx, objects.watched)
	}
	if rendered.err != nil {
		return nil, rendered.err
	}
	now := &scope.helmOp.Spec
	spec := &addonsv1.HelmOpReleaseSpec{
		ClusterRef:       clusterRefOf(scope.helmOp.Namespace, c.key),
		Release:          rendered.release,
		Artifact:         *w.artifact,
		ValuesDigest:     rendered.valuesDigest,
		PostRenderDigest: rendered.postRenderDigest,
		ReleaseOptions:   w.helmOp.Spec.ReleaseOptions,
		ClusterOptions:   now.ClusterOptions,
		DeletionPolicy:   now.DeletionPolicy,
	}
	return spec, nil
}

// revisionOf is the number of the revision that a child is made from; 0 if it is none that is known.
func revisionOf(child *addonsv1.HelmOpRelease) int64 {
	if child == nil || child.Spec.Rollout == nil {
		return 0
	}
	return child.Spec.Rollout.Revision
}

func clusterRefOf(namespace string, key client.ObjectKey) addonsv1.ClusterReference {
	if key.Namespace == namespace {
		return addonsv1.ClusterReference{Name: key.Name}
	}
	return addonsv1.ClusterReference{Namespace: key.Namespace, Name: key.Name}
}

// retryWithin makes the next pass come no later than after a delay.
func (s *helmOpScope) retryWithin(delay time.Duration) {
	if delay > 0 && (s.requeueAfter == 0 || s.requeueAfter > delay) {
		s.requeueAfter = delay
	}
}

// watchKinds makes changes of the kinds of these objects reach the HelmOps of their Clusters.
func (r *helmOpReconciler) watchKinds(ctx context.Context, objects []*unstructured.Unstructured) {
	for _, obj := range objects {
		if err := r.tracker.Watch(ctrl.LoggerFrom(ctx), obj, r.handlerForClusterObjects()); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot watch a kind that templates see; its changes wait for the next resync",
				"kind", obj.GroupVersionKind().String())
		}
	}
}

func (r *helmOpReconciler) handlerForClusterObjects() handler.EventHandler {
	return delayed(func(ctx context.Context, obj client.Object) []ctrl.Request {
		return requestsForClusterObject(ctx, r.client, obj)
	})
}
