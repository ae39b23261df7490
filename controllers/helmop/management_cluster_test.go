// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// managingHelmOps returns the reconciler of a manager that permits namespace "a" to install in the management cluster.
func managingHelmOps(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	c := controllertest.ManagementClient(t, objects...)
	return &Reconciler{
		client: c, live: c, guard: selection.NewGuard(c, "a"),
		renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c, c)),
		now:      time.Now,
	}
}

func TestManagementClusterRequiresPermittedNamespace(t *testing.T) {
	t.Parallel()
	toClusters := controllertest.ManagementHelmOp("a")
	toClusters.Spec.ManagementCluster, toClusters.Spec.ClusterSelector = nil, &metav1.LabelSelector{}
	for name, tc := range map[string]struct {
		helmOp   *addonsv1.HelmOp
		children []client.Object
		// want has the names of the selected Clusters. "!" marks a Cluster that is not selected, and "?" a Cluster
		// without access.
		want string
	}{
		"permitted":     {helmOp: controllertest.ManagementHelmOp("a"), want: "management cluster"},
		"not permitted": {helmOp: controllertest.ManagementHelmOp("b"), want: "management cluster?"},
		"no longer permitted": {helmOp: controllertest.ManagementHelmOp("b"),
			children: []client.Object{controllertest.ManagementRelease(controllertest.ManagementHelmOp("b"))},
			want:     "management cluster?"},
		"release of a Cluster from before": {helmOp: controllertest.ManagementHelmOp("a"),
			children: []client.Object{controllertest.SameNameRelease(toClusters)},
			want:     "management cluster,management-cluster!"},
		"HelmOp for Clusters": {helmOp: toClusters, want: "management-cluster"},
		"HelmOp for Clusters, with a release in the management cluster": {helmOp: toClusters,
			children: []client.Object{controllertest.ManagementRelease(toClusters)},
			want:     "management cluster!,management-cluster"},
		"release of a missing Cluster of the same name": {helmOp: controllertest.ManagementHelmOp("b"),
			children: []client.Object{controllertest.SameNameRelease(controllertest.ManagementHelmOp("b"))},
			want:     "management cluster?,management-cluster!"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := managingHelmOps(t, tc.children...)
			scope := &helmOpScope{helmOp: tc.helmOp}
			if err := m.selectClusters(t.Context(), scope); err != nil || scope.stale {
				t.Fatalf("stale %t, %v", scope.stale, err)
			}
			var got []string
			for _, c := range scope.clusters {
				text := c.name
				if !c.selected {
					text += "!"
				}
				if c.err != nil {
					text += "?"
				}
				got = append(got, text)
			}
			if strings.Join(got, ",") != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if isDenied := strings.Contains(tc.want, "?"); isDenied != (scope.programErr != nil) ||
				isDenied && reasons.ForRendering(scope.programErr) != addonsv1.ClusterAccessDeniedReason {
				t.Errorf("the HelmOp says %v", scope.programErr)
			}
		})
	}
}

func TestManagementClusterHasShardOfManager(t *testing.T) {
	t.Parallel()
	m := managingHelmOps(t)
	for _, shard := range []string{"", "b"} {
		object, err := clusterview.ManagementCluster(t.Context(), m.client, shard)
		if err != nil || !apiutil.IsOfShard(object, shard) || !apiutil.IsManagement(object) || object.GetUID() != "system" {
			t.Errorf("shard %q: %v, %v", shard, object, err)
		}
		cluster, err := apiutil.TypedCluster(object)
		if err != nil || !apiutil.IsInitialized(cluster) || apiutil.IsClusterPaused(cluster) {
			t.Errorf("shard %q: %v, %v", shard, cluster, err)
		}
	}
	near := &dependencies.Dependency{HelmOp: &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}}
	object, err := clusterview.ManagementCluster(t.Context(), m.client, "")
	if err != nil {
		t.Fatal(err)
	}
	near.Name = "near"
	if why := near.Unmet(object, nil); why != "HelmOp near does not select the management cluster" {
		t.Errorf("a dependency on a HelmOp for Clusters is unmet: %q", why)
	}
}

// TestManagementClusterWaitsForApproval creates the first HelmOp revision for the management cluster.
func TestManagementClusterWaitsForApproval(t *testing.T) {
	t.Parallel()
	helmOp := controllertest.ManagementHelmOp("a")
	helmOp.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
	r := managingHelmOps(t)
	decide := func() (approval.Decision, rollout.Step) {
		t.Helper()
		scope := &helmOpScope{helmOp: helmOp,
			revisions: []*addonsv1.HelmOpRevision{{Spec: addonsv1.HelmOpRevisionSpec{Number: 1}}}}
		if err := r.selectClusters(t.Context(), scope); err != nil || len(scope.clusters) != 1 {
			t.Fatalf("%d Clusters, %v", len(scope.clusters), err)
		}
		scope.clusters[0].target = &addonsv1.HelmOpReleaseSpec{ValuesDigest: "v"}
		input, err := r.planInput(scope)
		if err != nil {
			t.Fatal(err)
		}
		decideApproval(scope, &input)
		return scope.approval, rollout.Plan(input).Steps[0]
	}
	waiting, step := decide()
	if !waiting.Unapproved || !slices.Equal(waiting.Waiting, []string{apiutil.ManagementTitle}) || !step.Unapproved {
		t.Errorf("decided %+v, planned %+v", waiting, step)
	}
	helmOp.Annotations = map[string]string{addonsv1.RolloutApproveAnnotation: approval.Request(1, waiting.Digest)}
	if approved, step := decide(); approved.Waits() || step.Action != rollout.ActionCreate {
		t.Errorf("decided %+v, planned %+v", approved, step)
	}
}
