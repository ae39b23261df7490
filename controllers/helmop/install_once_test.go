// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// TestInstalledOnceKeepsIdentity changes the name and the namespace of a release in HelmOp revision 2. A release that
// was installed once must not be replaced: it gets the revision, and keeps its name and its namespace.
func TestInstalledOnceKeepsIdentity(t *testing.T) {
	t.Parallel()
	once, always := addonsv1.ReconcileStrategyInstallOnce, addonsv1.ReconcileStrategyContinuous
	override := func(o *addonsv1.HelmOpSpec, strategy addonsv1.ReconcileStrategy) {
		o.Overrides = []addonsv1.Override{{Name: "all",
			ReleaseOptions: addonsv1.ReleaseOptions{ReconcileStrategy: strategy}}}
	}
	for name, tc := range map[string]struct {
		annotation string
		change     func(*addonsv1.HelmOpSpec)
		want       rollout.Action
	}{
		"installed once": {"true", func(s *addonsv1.HelmOpSpec) { s.ReconcileStrategy = once }, rollout.ActionUpdate},
		"installed once, by an override": {"true", func(s *addonsv1.HelmOpSpec) { override(s, once) },
			rollout.ActionUpdate},
		"not installed yet": {"", func(s *addonsv1.HelmOpSpec) { s.ReconcileStrategy = once }, rollout.ActionReplace},
		"now continuous":    {"true", func(s *addonsv1.HelmOpSpec) { s.ReconcileStrategy = always }, rollout.ActionReplace},
		"now continuous, by an override": {"true", func(s *addonsv1.HelmOpSpec) {
			s.ReconcileStrategy = once
			override(s, always)
		}, rollout.ActionReplace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			newest := b.Revisions[1]
			newest.Spec.Artifact = &addonsv1.ResolvedArtifact{Digest: "a"}
			newest.Spec.HelmOp.Release.Namespace = "other"
			tc.change(&newest.Spec.HelmOp)
			b.Release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: tc.annotation}
			b.Release.Spec.ReconcileStrategy = once
			r, scope := planNewest(t, b)
			cluster := scope.clusters[0]
			if cluster.step.Action != tc.want || cluster.step.Revision != 2 {
				t.Fatalf("the step is %+v, want %s to HelmOp revision 2", cluster.step, tc.want)
			}
			if tc.want != rollout.ActionUpdate {
				return
			}
			spec, err := r.releaseSpecFor(scope, cluster)
			want := addonsv1.ReleaseIdentity{Name: "one", Namespace: apiutil.DefaultReleaseNamespace}
			if err != nil || spec.Release != want {
				t.Errorf("the release is %+v, %v; want %+v", spec.Release, err, want)
			}
		})
	}
}

// TestRestoredClusterKeepsRelease changes the name of a release in HelmOp revision 2. Then only the Cluster object is
// restored, so the annotation of an installation that is complete is gone. HelmOp must not delete the release before
// the release controller has read the release: it may restore the annotation.
func TestRestoredClusterKeepsRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state string
		want  rollout.Action
	}{
		"not read yet":                  {"", rollout.ActionNone},
		"not read, and was unreachable": {string(model.StateUnreachable), rollout.ActionNone},
		"read":                          {string(model.StateAbsent), rollout.ActionReplace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			newest := b.Revisions[1]
			newest.Spec.Artifact = &addonsv1.ResolvedArtifact{Digest: "a"}
			newest.Spec.HelmOp.Release.Namespace, newest.Spec.HelmOp.ReconcileStrategy = "other",
				addonsv1.ReconcileStrategyInstallOnce
			b.Release.Spec.Rollout.At = metav1.NewTime(controllertest.Noon.Add(-time.Hour))
			b.Release.Status = addonsv1.HelmOpReleaseStatus{State: tc.state, ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{
				ClusterUID: string(b.Cluster.UID), ClusterRecreatedAt: metav1.NewTime(controllertest.Noon)}}
			_, scope := planNewest(t, b)
			if step := scope.clusters[0].step; step.Action != tc.want {
				t.Errorf("the step is %+v, want %s", step, tc.want)
			}
		})
	}
}

// planNewest plans the rollout of the newest HelmOp revision to the Cluster of a bench.
func planNewest(t *testing.T, b *controllertest.ReleaseBench) (*Reconciler, *helmOpScope) {
	t.Helper()
	r, scope := newestScope(t, b)
	r.plan(t, scope)
	return r, scope
}

// newestScope returns the scope of a pass in which the newest HelmOp revision of a bench is the desired revision.
func newestScope(t *testing.T, b *controllertest.ReleaseBench) (*Reconciler, *helmOpScope) {
	t.Helper()
	c := b.Client()
	r := &Reconciler{client: c, now: func() time.Time { return controllertest.Noon }, planned: rolloutstate.NewCache(),
		renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c, c))}
	scope := &helmOpScope{helmOp: b.HelmOp, revisions: b.Revisions}
	var err error
	scope.strategy, scope.waves, err = strategy(b.HelmOp.Spec.Rollout)
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range b.Revisions {
		scope.desired, err = r.compileRevision(t.Context(), revisionstore.WithRevision(b.HelmOp, revision),
			revisionstore.ArtifactsOf(revision))
		if err != nil {
			t.Fatal(err)
		}
		scope.desired.number, revision.Spec.Digest = revision.Spec.Number, scope.desired.digest
	}
	scope.addCluster(t, b.Cluster, b.Release)
	return r, scope
}

// addCluster adds a Cluster whose control plane is initialized. Its release may be nil.
func (s *helmOpScope) addCluster(t *testing.T, cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease) {
	t.Helper()
	cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
	if err != nil {
		t.Fatal(err)
	}
	object["kind"] = "Cluster"
	s.clusters = append(s.clusters, &clusterScope{name: cluster.Name, key: client.ObjectKeyFromObject(cluster),
		cluster: cluster, object: &unstructured.Unstructured{Object: object}, selected: true, child: release})
}

// plan renders the releases of all Clusters, and sets their steps.
func (r *Reconciler) plan(t *testing.T, scope *helmOpScope) {
	t.Helper()
	if err := r.render(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	input, err := r.planInput(scope)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range rollout.Plan(input).Steps {
		if scope.clusters[i].err != nil {
			t.Fatal(scope.clusters[i].err)
		}
		scope.clusters[i].step = step
	}
}
