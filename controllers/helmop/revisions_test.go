// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// reviser creates revisions of one HelmOp, and reads them in the same way as a new pass.
type reviser struct {
	*testing.T
	*Reconciler
	helmOp *addonsv1.HelmOp
}

func newReviser(t *testing.T) *reviser {
	t.Helper()
	helmOp := &addonsv1.HelmOp{}
	helmOp.Namespace, helmOp.Name, helmOp.UID = "fleet", "cni", "1"
	c := controllertest.StoreOf(t)
	return &reviser{T: t, helmOp: helmOp, Reconciler: &Reconciler{client: c, live: c, now: time.Now}}
}

func (r *reviser) scope() *helmOpScope {
	r.Helper()
	scope := &helmOpScope{helmOp: r.helmOp}
	if err := r.readRevisions(r.Context(), scope); err != nil {
		r.Fatal(err)
	}
	return scope
}

// desiring returns the scope of a pass that desires the current spec of the HelmOp.
func (r *reviser) desiring() *helmOpScope {
	r.Helper()
	scope := r.scope()
	variants, err := render.NewVariants(&r.helmOp.Spec)
	if err != nil {
		r.Fatal(err)
	}
	unknown := func(addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
		return nil, errors.New("unknown")
	}
	scope.desired = &compiledRevision{
		digest: fmt.Sprint(len(scope.revisions)), helmOp: r.helmOp, Program: &render.Program{Variants: variants},
		artifactOf: unknown,
	}
	return scope
}

// revise creates the next revision, with the current spec of the HelmOp.
func (r *reviser) revise() *addonsv1.HelmOpRevision {
	r.Helper()
	scope := r.desiring()
	revision, err := r.createRevision(r.Context(), scope, scope.revisions.Newest())
	if err != nil {
		r.Fatal(err)
	}
	return revision
}

// TestRevisionsStoreLargeFieldsOnce checks that the stored revisions are small, and that a read returns all their
// fields.
func TestRevisionsStoreLargeFieldsOnce(t *testing.T) {
	t.Parallel()
	r := newReviser(t)
	r.helmOp.Spec.ValuesTemplate = strings.Repeat("x", 1<<18)
	for i := range 5 {
		r.helmOp.Spec.Source.Ref.Tag = fmt.Sprint("1.0.", i)
		selector := controllertest.Labelled("stage", fmt.Sprint(i))
		r.helmOp.Spec.ClusterSelector = &selector
		if made := r.revise(); made.Spec.HelmOp.ValuesTemplate != r.helmOp.Spec.ValuesTemplate {
			t.Fatalf("HelmOp revision %d was made without its values", made.Spec.Number)
		}
	}
	stored := &addonsv1.HelmOpRevisionList{}
	if err := r.client.List(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	size := 0
	for i := range stored.Items {
		size += len(stored.Items[i].Spec.HelmOp.ValuesTemplate)
		if stored.Items[i].Spec.HelmOp.ClusterSelector != nil {
			t.Error("a HelmOp revision stores the selector, which is always that of the present HelmOp")
		}
	}
	if len(stored.Items) != 5 || size != 1<<18 {
		t.Errorf("%d revisions have %d bytes of values", len(stored.Items), size)
	}
	for i, revision := range r.scope().revisions {
		at, err := revisionstore.HelmOpAt(t.Context(), r.client, r.helmOp, revision.Spec.Number)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range []*addonsv1.HelmOpSpec{&revision.Spec.HelmOp, &at.Spec} {
			if spec.ValuesTemplate != r.helmOp.Spec.ValuesTemplate || spec.Source.Ref.Tag != fmt.Sprint("1.0.", i) {
				t.Errorf("HelmOp revision %d is not what it was", i+1)
			}
		}
		if !equality.Semantic.DeepEqual(at.Spec.ClusterSelector, r.helmOp.Spec.ClusterSelector) {
			t.Errorf("HelmOp revision %d does not have the present selector", i+1)
		}
	}
	last := r.scope().revisions[4]
	if err := r.writeRevision(t.Context(), last, addonsv1.HelmOpRevisionStatus{Good: true}); err != nil ||
		last.Spec.HelmOp.ValuesTemplate == "" {
		t.Errorf("a revision has no values after its status was written: %v", err)
	}
	if err := r.client.Delete(t.Context(), r.scope().revisions[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := revisionstore.HelmOpAt(t.Context(), r.client, r.helmOp, 5); !apierrors.IsNotFound(err) {
		t.Errorf("error = %v, want NotFound: the test deleted the revision with the values", err)
	}
}

// TestRestoredRevisionsKeepTheirStatus restores HelmOpRevisions without their status and without owner references, as
// Velero does. The newest revision was rolled back. The rollback must stay, and the last known good revision must be
// known. Only the first pass writes the statuses.
func TestRestoredRevisionsKeepTheirStatus(t *testing.T) {
	t.Parallel()
	r := newReviser(t)
	results := []addonsv1.HelmOpRevisionStatus{
		{Phase: addonsv1.RolloutPhaseComplete, Good: true, Approval: &addonsv1.RevisionApproval{Digest: "a"}},
		{Phase: addonsv1.RolloutPhaseRolledBack, Reason: "it failed", PassedWave: "canary", LastContinueRequest: "2/1",
			AcknowledgedFailures: 1},
		{Phase: addonsv1.RolloutPhaseProgressing},
	}
	for i := range results {
		r.helmOp.Spec.Source.Ref.Tag = fmt.Sprint("1.0.", i)
		revision := r.revise()
		results[i].StartedAt = revision.Status.StartedAt
		if err := r.writeRevision(t.Context(), revision, results[i]); err != nil {
			t.Fatal(err)
		}
		results[i].Approval = nil
	}
	for _, revision := range r.scope().revisions {
		revision.Status, revision.OwnerReferences = addonsv1.HelmOpRevisionStatus{}, nil
		if err := r.client.Update(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		restored := r.scope().revisions
		for i, revision := range restored {
			if want := results[i]; !revision.Status.StartedAt.Time.Equal(want.StartedAt.Truncate(time.Second)) {
				t.Errorf("HelmOp revision %d began at %s, want %s", i+1, revision.Status.StartedAt, want.StartedAt)
			} else if want.StartedAt = revision.Status.StartedAt; !equality.Semantic.DeepEqual(revision.Status, want) {
				t.Errorf("HelmOp revision %d has the status %+v, want %+v", i+1, revision.Status, want)
			}
		}
		state := (&helmOpScope{revisions: restored[:2]}).rolloutState()
		if goal := state.Goal(); goal != 1 {
			t.Errorf("the Clusters get HelmOp revision %d", goal)
		}
		r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return errors.New("a second write")
			},
		})
	}
}

// TestRefusedRevisionIsReported has a policy that refuses HelmOpRevisions. The pass must continue, so that the HelmOp
// reports the cause, and the releases of unselected Clusters are deleted. Another error ends the pass.
func TestRefusedRevisionIsReported(t *testing.T) {
	t.Parallel()
	policy := apierrors.NewForbidden(schema.GroupResource{}, "cni-1", errors.New("quota exceeded"))
	for name, tc := range map[string]struct {
		refusal   error
		continues bool
	}{
		"a policy or a quota":          {policy, true},
		"a validation":                 {apierrors.NewInvalid(schema.GroupKind{}, "cni-1", nil), true},
		"the API server has no answer": {apierrors.NewServiceUnavailable("not now"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReviser(t)
			r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return tc.refusal
				},
			})
			scope, cluster := r.desiring(), &clusterv1.Cluster{}
			cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			scope.clusters = []*clusterScope{{selected: true, cluster: cluster}}
			err := r.Reconciler.revise(t.Context(), scope)
			if !tc.continues {
				if !errors.Is(err, tc.refusal) || scope.programErr != nil {
					t.Errorf("error %v, reported %v", err, scope.programErr)
				}
				return
			}
			if err != nil || scope.desired != nil || scope.requeueAfter == 0 {
				t.Errorf("error %v, desired %v, next pass after %s", err, scope.desired, scope.requeueAfter)
			}
			if got := failures.Of(scope.programErr, failures.Planning).Reason; got != addonsv1.RecordFailedReason {
				t.Errorf("the HelmOp reports %q: %v", got, scope.programErr)
			}
		})
	}
}

// TestRevisionsAreBoundedInBytes checks that a HelmOp with large values that often change keeps few revisions.
func TestRevisionsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	r := newReviser(t)
	limit := int32(100)
	r.helmOp.Spec.RevisionHistoryLimit = &limit
	for i := range 40 {
		r.helmOp.Spec.ValuesTemplate = fmt.Sprint(i) + strings.Repeat("x", 1<<18)
		r.revise()
		if err := r.pruneRevisions(t.Context(), r.scope()); err != nil {
			t.Fatal(err)
		}
	}
	size, kept := 0, r.scope().revisions
	for _, revision := range kept {
		size += revisions.Bytes(revision)
	}
	if size > revisions.MaxBytes || len(kept) < 10 || kept[len(kept)-1].Spec.Number != 40 {
		t.Errorf("%d revisions are kept, of %d bytes", len(kept), size)
	}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(kept[0]), &addonsv1.HelmOpRevision{}); err != nil {
		t.Error(err)
	}
}

// TestReviseReadsRevisionMissingInCache uses a cache of HelmOpRevisions that is older than the cache of HelmOpReleases.
func TestReviseReadsRevisionMissingInCache(t *testing.T) {
	t.Parallel()
	r := newReviser(t)
	made := r.revise()
	made.Labels = nil // The cache finds revisions by their labels.
	if err := r.client.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	scope := r.scope()
	child := &addonsv1.HelmOpRelease{}
	child.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: made.Spec.Number}
	scope.clusters = []*clusterScope{{child: child}}
	if err := r.readUncached(t.Context(), scope); err != nil || len(scope.revisions) != 1 ||
		scope.revisions.Newest().Spec.Digest != made.Spec.Digest {
		t.Fatalf("revisions = %v, err = %v, want the one that the release has", scope.revisions, err)
	}
	child.Spec.Rollout.Revision++
	if err := r.readUncached(t.Context(), scope); err != nil || len(scope.revisions) != 1 {
		t.Errorf("revisions = %v, err = %v, want no revision that was deleted", scope.revisions, err)
	}
}

// servedCluster returns a Cluster that can get a release.
func servedCluster(name string, child *addonsv1.HelmOpRelease) *clusterScope {
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = "fleet", name
	cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	return &clusterScope{name: name, cluster: cluster, object: &unstructured.Unstructured{}, selected: true, child: child}
}

// TestMovedRevisionsAreAwaited makes passes over a HelmOp with a Cluster that is not paused, as a HelmOp has that
// installs in the management cluster. If clusterctl move may have created the HelmOp, the passes create no revision
// until the moved revisions had time to arrive, and then while a Cluster in the namespace is paused.
func TestMovedRevisionsAreAwaited(t *testing.T) {
	t.Parallel()
	finalizer := []string{addonsv1.HelmOpFinalizer}
	for name, tc := range map[string]struct {
		finalizers []string
		observed   int64
		// has is true if the newest revision has the desired state.
		has, paused bool
		// want are the numbers of revisions right after the arrival, after three minutes and after an hour.
		want [3]int
	}{
		"new":                            {observed: -1, want: [3]int{1, 1, 1}},
		"known":                          {finalizers: finalizer, observed: 1, want: [3]int{1, 1, 1}},
		"moved":                          {finalizers: finalizer, observed: -1, want: [3]int{0, 1, 1}},
		"moved, with an empty status":    {finalizers: finalizer, want: [3]int{0, 1, 1}},
		"moved, with a paused Cluster":   {finalizers: finalizer, paused: true, want: [3]int{0, 0, 1}},
		"moved, the revision has come":   {finalizers: finalizer, has: true, want: [3]int{1, 1, 1}},
		"new, beside a paused Cluster":   {observed: -1, paused: true, want: [3]int{1, 1, 1}},
		"moved, has come, and is paused": {finalizers: finalizer, has: true, paused: true, want: [3]int{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReviser(t)
			began := time.Now()
			now := began
			r.now = func() time.Time { return now }
			other := &unstructured.Unstructured{}
			other.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
			other.SetNamespace(r.helmOp.Namespace)
			other.SetName("other")
			if tc.paused {
				other.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
			}
			if err := r.client.Create(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			if tc.has {
				r.revise()
			}
			r.helmOp.Finalizers, r.helmOp.Status.ObservedGeneration = tc.finalizers, tc.observed
			for i, age := range []time.Duration{0, revisionsArrive, moveEnds} {
				now = began.Add(age)
				r.noteOrigin(r.helmOp)
				r.helmOp.Finalizers, r.helmOp.Status.ObservedGeneration = finalizer, 1
				scope := r.desiring()
				scope.desired.digest = "0"
				scope.clusters = []*clusterScope{servedCluster("management", nil)}
				if err := r.checkMove(t.Context(), scope); err != nil {
					t.Fatal(err)
				}
				if err := r.Reconciler.revise(t.Context(), scope); err != nil {
					t.Fatal(err)
				}
				waits := scope.awaitsRevisions && scope.requeueAfter == awaitInterval && scope.desired == nil
				if len(scope.revisions) != tc.want[i] || waits != (tc.want[i] == 0) {
					t.Errorf("after %s: %d revisions, waits: %t", age, len(scope.revisions), scope.awaitsRevisions)
				}
			}
		})
	}
}

// TestRevertedRevisionsArrive moves a HelmOp whose spec was reverted: revisions 1 and 3 have the same digest. Revision
// 1 is not the newest one if a release has a higher number. When revision 2 arrives, the wait begins again.
func TestRevertedRevisionsArrive(t *testing.T) {
	t.Parallel()
	r := newReviser(t)
	r.helmOp.Finalizers = []string{addonsv1.HelmOpFinalizer}
	r.noteOrigin(r.helmOp)
	released := int64(0)
	pass := func() *helmOpScope {
		t.Helper()
		scope := r.desiring()
		scope.desired.digest = "0"
		scope.clusters = []*clusterScope{servedCluster("c", nil)}
		if released > 0 {
			child := &addonsv1.HelmOpRelease{}
			child.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: released}
			scope.clusters[0].child = child
		}
		for _, step := range []func(context.Context, *helmOpScope) error{r.checkMove, r.Reconciler.revise} {
			if err := step(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
		}
		return scope
	}
	r.revise()
	if scope := pass(); scope.awaitsRevisions || scope.desiredNumber() != 1 {
		t.Errorf("revision 1 is there, but the pass waits for another one")
	}
	released = 3
	if scope := pass(); !scope.awaitsRevisions || scope.desired != nil {
		t.Errorf("a release has revision 3, but the pass does not wait for it")
	}
	released = 0
	r.revise()
	if scope := pass(); !scope.awaitsRevisions || len(scope.revisions) != 2 {
		t.Errorf("revision 3 is not there, but the pass does not wait for it; there are %d revisions", len(scope.revisions))
	}
	three := r.revise()
	three.Spec.Digest = "0"
	if err := r.client.Update(t.Context(), three); err != nil {
		t.Fatal(err)
	}
	if scope := pass(); scope.awaitsRevisions || scope.desiredNumber() != 3 {
		t.Errorf("revision 3 is there, but the pass waits for another one")
	}
	four := r.desiring()
	four.clusters = []*clusterScope{servedCluster("c", nil)}
	if err := r.checkMove(t.Context(), four); err != nil {
		t.Fatal(err)
	}
	if err := r.Reconciler.revise(t.Context(), four); err != nil || four.desiredNumber() != 4 {
		t.Errorf("a change after the arrival waits: revision %d, %v", four.desiredNumber(), err)
	}
}

// TestArrivingHelmOpChangesNoRelease plans for a moved HelmOp whose newest revision has not arrived. Revision 2 was
// rolled back to revision 1. The release has revision 3, and must not return to revision 1. No revision is deleted: it
// may be in use by a release that has not arrived.
func TestArrivingHelmOpChangesNoRelease(t *testing.T) {
	for _, isResolved := range []bool{true, false} {
		t.Run(fmt.Sprintf("resolved: %t", isResolved), func(t *testing.T) {
			t.Parallel()
			changesNoRelease(t, isResolved)
		})
	}
}

func changesNoRelease(t *testing.T, isResolved bool) {
	t.Helper()
	r := newReviser(t)
	r.planned = rolloutstate.NewCache()
	r.helmOp.Spec.RevisionHistoryLimit = new(int32(0))
	r.helmOp.Finalizers = []string{addonsv1.HelmOpFinalizer}
	for _, phase := range []addonsv1.RolloutPhase{
		addonsv1.RolloutPhaseComplete, addonsv1.RolloutPhaseComplete, addonsv1.RolloutPhaseRolledBack,
	} {
		revision := r.revise()
		revision.Status.Phase, revision.Status.Good = phase, phase == addonsv1.RolloutPhaseComplete
		if err := r.client.Update(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	child := controllertest.ReleaseFor("fleet", "cni-c", addonsv1.ClusterReference{Name: "c"})
	child.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 4}
	r.noteOrigin(r.helmOp)
	scope := r.desiring()
	if !isResolved {
		scope.desired = nil
	}
	scope.clusters = []*clusterScope{servedCluster("c", child)}
	scope.clusters[0].good = &addonsv1.HelmOpReleaseSpec{ValuesDigest: "good"}
	for _, step := range []func(context.Context, *helmOpScope) error{r.checkMove, r.Reconciler.revise, r.pruneRevisions} {
		if err := step(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
	}
	if left := r.scope().revisions; len(left) != 3 {
		t.Errorf("%d of 3 revisions are left", len(left))
	}
	input, err := r.planInput(scope)
	if err != nil {
		t.Fatal(err)
	}
	if step := rollout.Plan(input).Steps[0]; step.Action != rollout.ActionNone {
		t.Errorf("the release changes: %+v", step)
	}
}

// TestOldRequestsNameNoNewRevision creates revisions of a HelmOp that has annotations of a former HelmOp of the same
// name. No revision may have a number in these annotations. Otherwise the annotation would promote or abort its
// rollout. The first revision is the first one whatever its number is.
func TestOldRequestsNameNoNewRevision(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        []int64
	}{
		"no requests": {nil, []int64{1, 2, 3}},
		"old requests": {map[string]string{addonsv1.RolloutPromoteAnnotation: "7/canary",
			addonsv1.RolloutContinueAnnotation: "2/2", addonsv1.RolloutAbortAnnotation: "5"}, []int64{8, 9, 10}},
		"a promotion in the first rollout": {map[string]string{addonsv1.RolloutPromoteAnnotation: "1/canary"},
			[]int64{2, 3, 4}},
		"malformed": {map[string]string{addonsv1.RolloutPromoteAnnotation: "canary",
			addonsv1.RolloutContinueAnnotation: "-3", addonsv1.RolloutAbortAnnotation: "9223372036854775807"},
			[]int64{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReviser(t)
			r.helmOp.Annotations = tc.annotations
			for i, want := range tc.want {
				revision := r.revise()
				if revision.Spec.Number != want {
					t.Fatalf("revision %d has the number %d, want %d", i, revision.Spec.Number, want)
				}
				if requests := rolloutRequests(r.helmOp, revision); requests != (rollout.Requests{}) {
					t.Errorf("HelmOp revision %d has the requests %+v", want, requests)
				}
				if state := r.scope().rolloutState(); state.First != (i == 0) {
					t.Errorf("HelmOp revision %d is the first one: %t", want, state.First)
				}
			}
		})
	}
}
