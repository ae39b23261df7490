// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// TestPreviewKeepsInstalledRelease previews a HelmOp with a changed release name. A release that was installed once
// keeps its name. So the preview must print the digest of the release with this name: the manager computes the same.
func TestPreviewKeepsInstalledRelease(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	b.HelmOp.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
	digest, err := apiutil.SourceDigest(&b.HelmOp.Spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	b.HelmOp.Status.Artifact = &addonsv1.ArtifactStatus{SourceDigest: digest}
	b.Release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: "true"}
	previewer, key := New(Options{Client: b.Client()}), client.ObjectKeyFromObject(b.Cluster)
	release, err := previewer.Release(t.Context(), b.HelmOp, key)
	if err != nil {
		t.Fatal(err)
	}
	spec := release.HelmOpRelease.Spec.DeepCopy()
	if spec.Release == b.Release.Spec.Release {
		t.Fatal("the name of the release is not changed")
	}
	spec.Release = b.Release.Spec.Release
	want, err := approval.HashOfSpec(apiutil.TitleOf(b.HelmOp.Namespace, key), spec)
	if err != nil {
		t.Fatal(err)
	}

	var result Result
	previewer.preview(t.Context(), b.HelmOp, key, b.Release, nil, &result)
	if result.ApprovalHash != want || result.State != StateSame || result.Message != releasespec.InstalledOnce {
		t.Errorf("the preview is %+v, want the hash %s", result, want)
	}
}

// TestPreviewOfClusterThatIsNotReady expects a failure if the Cluster has the release: the change would reach it later.
func TestPreviewOfClusterThatIsNotReady(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Cluster.Status.Initialization.ControlPlaneInitialized = nil
	for want, child := range map[State]*addonsv1.HelmOpRelease{StateNotReady: nil, StateFailed: b.Release} {
		var result Result
		New(Options{Client: b.Client()}).preview(t.Context(), b.HelmOp, client.ObjectKeyFromObject(b.Cluster), child, nil,
			&result)
		if result.State != want || !strings.Contains(result.Message, errNotReady.Error()) {
			t.Errorf("want %s: got %+v", want, result)
		}
		// The manager does not render the release before the control plane is initialized.
		if !result.NotCovered || result.ApprovalHash != "" {
			t.Errorf("the digest of an approval covers the Cluster: %+v", result)
		}
	}
}

// TestPreviewOfLeavingClusters previews a HelmOp with releases in Clusters that it does not select. It expects those
// that the manager would uninstall.
func TestPreviewOfLeavingClusters(t *testing.T) {
	t.Parallel()
	helmOp := controllertest.UpToDateHelmOp(t, "web",
		func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "web" })
	childIn := func(cluster string) *addonsv1.HelmOpRelease {
		key := client.ObjectKey{Namespace: "n", Name: cluster}
		child := childOf(helmOp, key, &addonsv1.HelmOpReleaseSpec{ClusterRef: apiutil.ClusterRefOf("n", key)})
		child.Spec.Release = addonsv1.ReleaseIdentity{Namespace: "apps", Name: "web"}
		return child
	}
	objects := []client.Object{helmOp, childIn("gone")}
	for name, change := range map[string]func(*clusterv1.Cluster, *addonsv1.HelmOpRelease){
		"lost": func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) {
			c.Annotations = map[string]string{addonsv1.MaintenanceVetoAnnotation: "quarter end"}
		},
		"pinned": func(_ *clusterv1.Cluster, r *addonsv1.HelmOpRelease) {
			r.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
		},
		"kept": func(_ *clusterv1.Cluster, r *addonsv1.HelmOpRelease) {
			r.Annotations = map[string]string{addonsv1.OrphanAnnotation: "true"}
		},
		"ending": func(_ *clusterv1.Cluster, r *addonsv1.HelmOpRelease) {
			r.DeletionTimestamp, r.Finalizers = ptr.To(metav1.Now()), []string{addonsv1.HelmOpReleaseFinalizer}
		},
		"deleting": func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) {
			c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{clusterv1.ClusterFinalizer}
		},
		"other-shard": func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) {
			c.Labels = map[string]string{addonsv1.ShardLabel: "a"}
		},
		"moved": func(c *clusterv1.Cluster, r *addonsv1.HelmOpRelease) {
			c.Labels = map[string]string{"web": "yes", addonsv1.ShardLabel: "a"}
			r.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
		},
		"orphaned": func(c *clusterv1.Cluster, r *addonsv1.HelmOpRelease) {
			c.Labels = map[string]string{addonsv1.ShardLabel: "a"}
			r.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
		},
		"other": func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) { c.Labels = map[string]string{"other": "yes"} },
	} {
		cluster, child := &clusterv1.Cluster{ObjectMeta: controllertest.Meta(name)}, childIn(name)
		change(cluster, child)
		objects = append(objects, cluster, child)
	}
	selected := &clusterv1.Cluster{ObjectMeta: controllertest.Meta("new")}
	selected.Labels = map[string]string{"web": "yes"}
	remote := &clusterv1.Cluster{ObjectMeta: controllertest.Meta("remote")} // It has no release, and another shard.
	remote.Labels = map[string]string{"web": "yes", addonsv1.ShardLabel: "a"}
	far := &clusterv1.Cluster{ObjectMeta: controllertest.Meta("far")} // It also has no label that the HelmOp selects.
	far.Labels = map[string]string{addonsv1.ShardLabel: "a"}
	objects = append(objects, selected, remote, far, &clusterv1.Cluster{ObjectMeta: controllertest.Meta("free")})
	previewed := func(others func(*unstructured.Unstructured) bool, names ...string) []string {
		previewer := New(Options{Client: controllertest.StoreOf(t, objects...)})
		selected, err := previewer.Selected(t.Context(), helmOp, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 {
			selected = nil
		}
		for _, name := range names {
			selected = append(selected, client.ObjectKey{Namespace: "n", Name: name})
		}
		results, err := previewer.Clusters(t.Context(), helmOp, selected, others, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range results {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", results[i].Cluster, results[i].State,
				results[i].Action)))
			isDeferred := results[i].Cluster == "lost"
			if results[i].Cluster == "far" && strings.Contains(results[i].Message, "HelmOpRelease") {
				t.Errorf("there is no HelmOpRelease: %s", results[i].Message)
			}
			if !results[i].NotCovered || results[i].Message == "" || (results[i].Deferred != "") != isDeferred {
				t.Errorf("got %+v", results[i])
			}
		}
		slices.Sort(got)
		return got
	}
	matches := func(cluster *unstructured.Unstructured) bool { return cluster.GetLabels()["other"] == "" }
	want := []string{"kept Differs Orphan", "lost Differs Uninstall", "new NotReady", "orphaned Differs Orphan",
		"pinned Differs Uninstall"}
	if got := previewed(matches); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := previewed(nil); !slices.Equal(got, []string{"new NotReady"}) {
		t.Errorf("without others: got %q", got)
	}
	want = []string{"deleting Failed", "ending Failed", "far Failed", "free Failed", "moved Failed",
		"orphaned Differs Orphan", "other Differs Uninstall", "other-shard Failed", "remote Failed"}
	if got := previewed(nil, "free", "far", "ending", "other", "deleting", "other-shard", "moved", "orphaned",
		"remote"); !slices.Equal(got, want) {
		t.Errorf("named Clusters: got %q, want %q", got, want)
	}
}

// TestPreviewOfLostAccess previews a HelmOp without clusterNamespaces that has releases in Clusters of other
// namespaces. The manager does not uninstall these releases.
func TestPreviewOfLostAccess(t *testing.T) {
	t.Parallel()
	helmOp := controllertest.UpToDateHelmOp(t, "web", nil)
	for name, test := range map[string]struct {
		cluster    client.ObjectKey
		namespaces *addonsv1.ClusterNamespaces
		want       string
	}{
		"own namespace":     {client.ObjectKey{Namespace: "n", Name: "a"}, nil, "Differs Uninstall"},
		"another namespace": {client.ObjectKey{Namespace: "o", Name: "a"}, nil, "Failed"},
		"clusterNamespaces": {client.ObjectKey{Namespace: "o", Name: "a"}, &addonsv1.ClusterNamespaces{},
			"Differs Uninstall"},
		"management cluster": {clusterlink.Management, nil, "Differs Uninstall"},
	} {
		helmOp.Spec.ClusterNamespaces = test.namespaces
		spec := &addonsv1.HelmOpReleaseSpec{ClusterRef: apiutil.ClusterRefOf("n", test.cluster),
			Release: addonsv1.ReleaseIdentity{Namespace: "apps", Name: "web"}}
		outcome := leave(helmOp, childOf(helmOp, test.cluster, spec))
		if got := strings.TrimSpace(fmt.Sprintf("%s %s", outcome.State, outcome.Action)); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
		const message = "Cluster o/a is in another namespace, and spec.clusterNamespaces is not set; release apps/web " +
			"stays in the cluster"
		if test.want == "Failed" && outcome.Message != message {
			t.Errorf("%s: %s", name, outcome.Message)
		}
	}
}

// TestKeepsExistingObject expects that the plan for an existing HelmOpRelease knows which Helm records belong to it: by
// its UID, its shard, and the management clusters from which it was moved. It also knows whether it lost the release.
func TestKeepsExistingObject(t *testing.T) {
	t.Parallel()
	key, at := client.ObjectKey{Namespace: "n", Name: "a"}, metav1.NewTime(time.Unix(1e9, 0))
	helmOp := controllertest.UpToDateHelmOp(t, "web",
		func(h *addonsv1.HelmOp) { h.Labels = map[string]string{addonsv1.ShardLabel: "b"} })
	spec := &addonsv1.HelmOpReleaseSpec{ClusterRef: apiutil.ClusterRefOf("n", key)}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "here"}}
	previewer := New(Options{Client: controllertest.StoreOf(t, system)})
	for name, test := range map[string]struct {
		change  func(*addonsv1.HelmOpRelease)
		wasOurs bool
	}{
		"new object":    {func(*addonsv1.HelmOpRelease) {}, false},
		"had a release": {func(r *addonsv1.HelmOpRelease) { r.Status.Release = &addonsv1.ReleaseObservation{} }, true},
		"lost, and moved": {func(r *addonsv1.HelmOpRelease) {
			r.Annotations[addonsv1.LostToAnnotation] = "n.other"
			r.Annotations[addonsv1.RetryRequestedAtAnnotation] = "earlier"
		}, true},
		"without an owner": {func(r *addonsv1.HelmOpRelease) { r.OwnerReferences = nil }, false},
		"retry requested": {func(r *addonsv1.HelmOpRelease) {
			r.Status.Release = &addonsv1.ReleaseObservation{}
			r.Annotations[addonsv1.RetryRequestedAtAnnotation] = "now"
		}, false},
	} {
		child := childOf(helmOp, key, spec.DeepCopy())
		child.UID, child.Spec.ValuesDigest, child.Status.ClusterRecreatedAt = "uid", "old", at
		child.Labels[addonsv1.ShardLabel] = "a"
		child.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: "here,there"}
		test.change(child)
		release := &Release{HelmOp: helmOp, HelmOpRelease: childOf(helmOp, key, spec)}
		release.keep(child)
		want := model.Desired{Owner: "n.web", UID: "uid", Shard: "b", ManagementCluster: "here",
			FormerManagementClusters: []string{"there"}, ClusterRecreatedAt: at.Time}
		got, _ := previewer.desired(t.Context(), release)
		got.OptionsDigest, got.ArtifactDigest = "", ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := release.past().WasOurs; got != test.wasOurs {
			t.Errorf("%s: WasOurs %t", name, got)
		}
	}
}

// TestReplace expects that the objects of the former release are created again, unless they stay in the cluster.
func TestReplace(t *testing.T) {
	t.Parallel()
	object := func(namespace, name, policy string) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			inventory.HelmReleaseNamespace: namespace, inventory.HelmReleaseName: name, "helm.sh/resource-policy": policy}}}
	}
	of := func(before map[string]any) model.Change {
		return model.Change{Kind: model.ChangeUpdate, Reason: model.ReasonOwnedByOther, Before: before}
	}
	release := &Release{HelmOp: &addonsv1.HelmOp{}, HelmOpRelease: &addonsv1.HelmOpRelease{}}
	release.HelmOpRelease.Spec.Release = addonsv1.ReleaseIdentity{Namespace: "apps", Name: "new"}
	child := &addonsv1.HelmOpRelease{}
	child.Spec.Release = addonsv1.ReleaseIdentity{Namespace: "apps", Name: "old"}
	for policy, tc := range map[addonsv1.DeletionPolicy]struct {
		message string
		kinds   []model.ChangeKind
	}{
		addonsv1.DeletionPolicyUninstall: {"first uninstalls release apps/old, because the release is apps/new now; held",
			[]model.ChangeKind{model.ChangeRecreate, model.ChangeUpdate, model.ChangeUpdate, model.ChangeCreate}},
		addonsv1.DeletionPolicyOrphan: {"leaves release apps/old in the cluster, and no longer manages it, because the " +
			"release is apps/new now; held",
			[]model.ChangeKind{model.ChangeUpdate, model.ChangeUpdate, model.ChangeUpdate, model.ChangeCreate}},
	} {
		release.HelmOp.Spec.DeletionPolicy = policy
		plan := model.Plan{Message: "held", Changes: []model.Change{of(object("apps", "old", "")),
			of(object("apps", "old", "keep")), of(object("apps", "foreign", "")), {Kind: model.ChangeCreate}}}
		replace(&plan, release, child)
		var kinds []model.ChangeKind
		for _, change := range plan.Changes {
			kinds = append(kinds, change.Kind)
			if fails := change.Reason.Fails(); fails != (change.Kind == model.ChangeUpdate) {
				t.Errorf("%s: got %+v", policy, change)
			}
		}
		if plan.Message != tc.message || !slices.Equal(kinds, tc.kinds) {
			t.Errorf("%s: got %q %q", policy, plan.Message, kinds)
		}
	}
}
