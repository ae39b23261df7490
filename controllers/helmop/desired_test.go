// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestUnchangedUnreachableClusterTakesNoSlot rolls out a HelmOp revision that changes an override for other Clusters. A
// Cluster that does not change and is unreachable must not take the only slot: not before it has the number of the new
// revision, and not after that.
func TestUnchangedUnreachableClusterTakesNoSlot(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.HelmOp.Spec.Rollout = &addonsv1.Rollout{MaxUnavailable: new(intstr.FromInt32(1))}
	for _, revision := range b.Revisions {
		revision.Spec.HelmOp.Release.Name, revision.Spec.Artifact = "one", &addonsv1.ResolvedArtifact{Digest: "a"}
	}
	b.Revisions[0].Status.Good = true
	b.Revisions[1].Spec.HelmOp.Overrides = []addonsv1.Override{{Name: "other",
		ClusterSelector: controllertest.Labelled("site", "other"),
		ReleaseOptions:  addonsv1.ReleaseOptions{ImpersonateServiceAccountName: "other"}}}
	r, scope := newestScope(t, b)
	scope.addCluster(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "two",
		Labels: map[string]string{"site": "other"}}}, b.Release.DeepCopy())
	for _, c := range scope.clusters {
		c.child.Spec = *r.renderPast(t.Context(), scope, 1, c)
		c.child.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, Reason: addonsv1.ReleaseRolloutUpdated,
			At: metav1.NewTime(controllertest.Noon.Add(-time.Hour))}
	}
	unreachable, ready := scope.clusters[0], scope.clusters[1]
	report.Unreachable(unreachable.child, "no answer")
	report.SetCondition(ready.child, addonsv1.ReadyCondition, report.True, addonsv1.ReadyReason, "")

	r.plan(t, scope)
	if unreachable.step.Action != rollout.ActionUpdate || unreachable.step.Revision != 2 {
		t.Fatalf("the step of the unreachable Cluster is %+v", unreachable.step)
	}
	for _, when := range []string{"before", "after"} {
		if ready.step.Action != rollout.ActionUpdate || ready.step.Revision != 2 {
			t.Errorf("%s the unreachable Cluster has the number, the step of the other is %+v", when, ready.step)
		}
		spec, err := r.releaseSpecFor(scope, unreachable)
		if err != nil {
			t.Fatal(err)
		}
		unreachable.child.Spec = spec
		r.plan(t, scope)
	}
}

// TestNewClusterWhileDesiredRevisionIsUnknown has a HelmOp whose present spec cannot be resolved or compiled. A new or
// re-created Cluster must get the newest HelmOp revision, whose rollout is complete, and not the one before.
func TestNewClusterWhileDesiredRevisionIsUnknown(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	for _, revision := range b.Revisions {
		revision.Spec.HelmOp.Release.Name, revision.Spec.Artifact = "one", &addonsv1.ResolvedArtifact{Digest: "a"}
		revision.Status.Good, revision.Status.Phase = true, addonsv1.RolloutPhaseComplete
	}
	b.Revisions[1].Spec.HelmOp.ImpersonateServiceAccountName = "second"
	r, scope := newestScope(t, b)
	scope.desired = nil
	former := b.Release.DeepCopy()
	former.Spec.Rollout.At = metav1.NewTime(controllertest.Noon.Add(-time.Hour))
	former.Status.ClusterRecreatedAt = metav1.NewTime(controllertest.Noon)
	for name, tc := range map[string]struct {
		child *addonsv1.HelmOpRelease
		want  int64
	}{
		"new":        {nil, 2},
		"re-created": {former, 2},
		"not new":    {b.Release, 1},
	} {
		c := scope.clusters[0]
		c.child, c.target, c.good, c.own = tc.child, nil, nil, nil
		r.plan(t, scope)
		spec, err := r.releaseSpecFor(scope, c)
		isSecond := spec.ImpersonateServiceAccountName == "second"
		if err != nil || spec.Rollout.Revision != tc.want || isSecond != (tc.want == 2) {
			t.Errorf("%s: the step %+v assigns %+v, %v", name, c.step, spec, err)
		}
	}
}

// TestNewClusterWaitsForReadableGoodRevision has a new or re-created Cluster whose wave has not begun. After a
// transient error, the Cluster waits until the values of the last known good revision can be read. If they are lost,
// the Cluster gets the new revision.
func TestNewClusterWaitsForReadableGoodRevision(t *testing.T) {
	t.Parallel()
	unavailable := apierrors.NewServiceUnavailable("try again")
	for name, tc := range map[string]struct {
		isRecreated bool
		err         error
		// first is the HelmOp revision that the Cluster gets while the values cannot be read; 0 if it gets none.
		first   int64
		requeue time.Duration
	}{
		"new":                          {err: unavailable, requeue: requeue.ObjectReadRetry},
		"re-created":                   {isRecreated: true, err: unavailable, requeue: requeue.ObjectReadRetry},
		"new, and the values are lost": {err: apierrors.NewNotFound(corev1.Resource("secrets"), "values"), first: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.HelmOp.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{Name: "canary", ClusterSelector: stage("canary")}}}
			for _, revision := range b.Revisions {
				revision.Spec.HelmOp.Release.Name, revision.Spec.Artifact = "one", &addonsv1.ResolvedArtifact{Digest: "a"}
			}
			good := b.Revisions[0]
			good.Status.Good, b.Cluster.Labels = true, map[string]string{"stage": "canary"}
			r, scope := newestScope(t, b)
			good.Spec.HelmOp.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "values", Key: "values.yaml"}}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.HelmOp.Namespace, Name: "values"},
				Data: map[string][]byte{"values.yaml": []byte("a: 1")}}
			if err := r.client.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			compiled, err := r.compileRevision(t.Context(), revisionstore.WithRevision(b.HelmOp, good),
				revisionstore.ArtifactsOf(good))
			if err != nil {
				t.Fatal(err)
			}
			good.Spec.Digest = compiled.digest
			values := &brokenReader{Reader: r.client, err: tc.err}
			r.renderer = render.New(references.NewReader(values, values), clusterview.NewReader(r.client, r.client))
			var child *addonsv1.HelmOpRelease
			if tc.isRecreated {
				child = b.Release.DeepCopy()
				child.Spec.Rollout.At = metav1.NewTime(controllertest.Noon.Add(-time.Hour))
				child.Status.ClusterRecreatedAt = metav1.NewTime(controllertest.Noon)
			}
			scope.addCluster(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "two"}}, child)
			late := scope.clusters[1]

			r.plan(t, scope)
			if late.step.Revision != tc.first || scope.requeueAfter != tc.requeue {
				t.Errorf("the step is %+v, and the next pass is in %s", late.step, scope.requeueAfter)
			}
			values.err, scope.past = nil, nil
			r.plan(t, scope)
			if spec, err := r.releaseSpecFor(scope, late); err != nil || spec.Rollout.Revision != 1 ||
				spec.Rollout.Reason != addonsv1.ReleaseRolloutJoined {
				t.Errorf("the next step %+v assigns %+v, %v", late.step, spec.Rollout, err)
			}
		})
	}
}

// TestClusterThatCannotReturnGetsItsChanges has a Cluster whose HelmOp revision was rolled back. The last known good
// revision cannot be rendered any more, so the Cluster keeps its revision. It must still get the changes that the
// Cluster itself causes, for example by a label.
func TestClusterThatCannotReturnGetsItsChanges(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	for _, revision := range b.Revisions {
		revision.Spec.HelmOp.Release.Name, revision.Spec.Artifact = "one", &addonsv1.ResolvedArtifact{Digest: "a"}
	}
	b.Revisions[0].Status.Good, b.Revisions[1].Status.Phase = true, addonsv1.RolloutPhaseRolledBack
	r, scope := newestScope(t, b)
	b.Revisions[0].Spec.Digest = "of other values"
	c := scope.clusters[0]
	c.child.Spec = *r.renderPast(t.Context(), scope, 2, c)
	c.child.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 2, Reason: addonsv1.ReleaseRolloutUpdated}
	if r.plan(t, scope); c.step.Action != rollout.ActionNone {
		t.Errorf("the step of an unchanged Cluster is %+v", c.step)
	}
	c.child.Spec.ValuesDigest = "of the former label"
	r.plan(t, scope)
	if c.step.Action != rollout.ActionUpdate || c.step.Source != rollout.SourceOwn || c.step.Revision != 2 {
		t.Errorf("the step of a changed Cluster is %+v", c.step)
	}
}
