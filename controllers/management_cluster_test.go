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
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// managementClient is the client of a management cluster with a Cluster that has its name.
func managementClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), addonsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects = append(objects,
		kubeSystem(),
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: clusterlink.Management.Name, UID: "c"}})
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	return builder.WithIndex(&addonsv1.HelmOpRelease{}, clusterIndex, clustersOfRelease).Build()
}

// managingHelmOps is the reconciler of a manager that lets namespace "a" in.
func managingHelmOps(t *testing.T, objects ...client.Object) *helmOpReconciler {
	t.Helper()
	c := managementClient(t, objects...)
	return &helmOpReconciler{
		client: c, live: c, guard: newClusterGuard(c, "a"), renderer: newRenderer(newReferenceReader(c, c), newObjectReader(c)),
		told: newToldGenerations(), now: time.Now,
	}
}

// managingReleases is the reconciler of a manager that lets namespace "a" in.
func managingReleases(t *testing.T, objects ...client.Object) *releaseReconciler {
	t.Helper()
	c := managementClient(t, objects...)
	return &releaseReconciler{client: c, live: c, guard: newClusterGuard(c, "a"), renderer: newRenderer(newReferenceReader(c, c), newObjectReader(c))}
}

func managementHelmOp(namespace string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "platform", UID: "h"},
		Spec: addonsv1.HelmOpSpec{
			ManagementCluster: &addonsv1.ManagementCluster{ServiceAccountName: "admin"},
			Release:           addonsv1.ReleaseTemplate{Namespace: "system"},
		},
	}
}

// managementRelease is the release of a HelmOp in the management cluster, and nearRelease that in the Cluster of the same name.
func managementRelease(helmOp *addonsv1.HelmOp) *addonsv1.HelmOpRelease {
	release := nearRelease(helmOp)
	release.Name = childName(helmOp.Name, managementTitle)
	release.Spec.ClusterRef = clusterRefOf(helmOp.Namespace, clusterlink.Management)
	return release
}

func nearRelease(helmOp *addonsv1.HelmOp) *addonsv1.HelmOpRelease {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: helmOp.Namespace, Name: childName(helmOp.Name, clusterlink.Management.Name), Labels: childSelector(helmOp),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(helmOp, addonsv1.GroupVersion.WithKind(helmOpKind))},
	}}
	release.Spec.ClusterRef.Name = clusterlink.Management.Name
	release.Spec.Release = addonsv1.ReleaseIdentity{Namespace: "system", Name: "platform"}
	return release
}

func TestManagementClusterIsSelectedWhereItIsPermitted(t *testing.T) {
	t.Parallel()
	toClusters := managementHelmOp("a")
	toClusters.Spec.ManagementCluster, toClusters.Spec.ClusterSelector = nil, &metav1.LabelSelector{}
	for name, tc := range map[string]struct {
		helmOp   *addonsv1.HelmOp
		children []client.Object
		// want are the names of the Clusters that are found, with ! where they are not selected and ? where it may not be served.
		want string
	}{
		"permitted":                     {helmOp: managementHelmOp("a"), want: "management cluster"},
		"not permitted":                 {helmOp: managementHelmOp("b"), want: "management cluster?"},
		"not permitted any more":        {helmOp: managementHelmOp("b"), children: []client.Object{managementRelease(managementHelmOp("b"))}, want: "management cluster?"},
		"it was for Clusters before":    {helmOp: managementHelmOp("a"), children: []client.Object{nearRelease(toClusters)}, want: "management cluster,management-cluster!"},
		"it is for Clusters":            {helmOp: toClusters, want: "management-cluster"},
		"it is for Clusters by now":     {helmOp: toClusters, children: []client.Object{managementRelease(toClusters)}, want: "management cluster!,management-cluster"},
		"a Cluster of the name is gone": {helmOp: managementHelmOp("b"), children: []client.Object{nearRelease(managementHelmOp("b"))}, want: "management cluster?,management-cluster!"},
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
				isDenied && renderReason(scope.programErr) != addonsv1.ClusterAccessDeniedReason {
				t.Errorf("the HelmOp says %v", scope.programErr)
			}
		})
	}
}

func TestManagementReleaseIsForWhoMayServeIt(t *testing.T) {
	t.Parallel()
	m := managingReleases(t)
	for name, tc := range map[string]struct {
		helmOp *addonsv1.HelmOp
		want   bool
	}{
		"permitted": {managementHelmOp("a"), true}, "another namespace": {managementHelmOp("b"), false}, "the HelmOp is gone": {nil, false},
		"the HelmOp is for Clusters by now": {&addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, true},
	} {
		guard := m.guard
		allowed := false
		if tc.helmOp != nil {
			var err error
			if allowed, err = guard.allows(t.Context(), tc.helmOp, clusterlink.Management); err != nil {
				t.Fatal(err)
			}
		}
		if allowed != tc.want {
			t.Errorf("%s: allowed %t", name, allowed)
		}
	}
}

func TestManagementReleaseActsAsItsServiceAccount(t *testing.T) {
	t.Parallel()
	release := managementRelease(managementHelmOp("a"))
	release.Spec.ServiceAccountName = "admin"
	near := nearRelease(managementHelmOp("a"))
	near.Spec.ServiceAccountName = "admin"
	unnamed := managementRelease(managementHelmOp("a"))
	for user, release := range map[string]*addonsv1.HelmOpRelease{
		"system:serviceaccount:a:admin": release, "system:serviceaccount:system:admin": near, "system:serviceaccount:a:": unnamed,
	} {
		if got := impersonated(release); got != user {
			t.Errorf("%s, want %s", got, user)
		}
	}
}

func TestFateOfAManagementRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOp)
		want   releaseFate
	}{
		"wanted": {func(*addonsv1.HelmOp) {}, fateWanted},
		"for Clusters by now": {func(h *addonsv1.HelmOp) {
			h.Spec.ManagementCluster, h.Spec.ClusterSelector = nil, &metav1.LabelSelector{}
		}, fateEnds},
		"another name is wanted": {func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "other" }, fateReplaced},
	} {
		helmOp := managementHelmOp("a")
		tc.change(helmOp)
		m := managingReleases(t, helmOp)
		if fate, err := m.fateOf(t.Context(), managementRelease(helmOp)); err != nil || fate != tc.want {
			t.Errorf("%s: fate %d, %v", name, fate, err)
		}
		// Whatever becomes of it, it may be carried out.
		if may, err := m.mayAccess(t.Context(), &releaseScope{release: managementRelease(helmOp), helmOp: helmOp}); !may || err != nil {
			t.Errorf("%s: may access %t, %v", name, may, err)
		}
	}
}

// What the object that stands for the management cluster is read from must not be taken for a Cluster that is gone.
func TestManagementClusterThatCannotBeReadIsNotGone(t *testing.T) {
	t.Parallel()
	m := managingReleases(t)
	if err := m.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}); err != nil {
		t.Fatal(err)
	}
	release := managementRelease(managementHelmOp("a"))
	if scope, err := m.gather(t.Context(), m.client, release); err == nil {
		t.Errorf("it is %v", scope.cluster)
	}
}

func TestManagementClusterIsOfTheShardThatAsks(t *testing.T) {
	t.Parallel()
	m := managingHelmOps(t)
	for _, shard := range []string{"", "b"} {
		object, err := managementCluster(t.Context(), m.client, shard)
		if err != nil || !isOfShard(object, shard) || !isManagement(object) || object.GetUID() != "system" {
			t.Errorf("shard %q: %v, %v", shard, object, err)
		}
		cluster, err := typedCluster(object)
		if err != nil || !isInitialized(cluster) || isClusterPaused(cluster) {
			t.Errorf("shard %q: %v, %v", shard, cluster, err)
		}
	}
	near := &dependency{helmOp: &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}}
	there := &dependency{helmOp: managementHelmOp("a")}
	object, err := managementCluster(t.Context(), m.client, "")
	if err != nil || near.selects(object) || !there.selects(object) {
		t.Errorf("dependencies select it: %t, %t, %v", near.selects(object), there.selects(object), err)
	}
	near.Name = "near"
	if why := near.unmet(object, nil); why != "HelmOp near does not select the management cluster" {
		t.Errorf("a dependency on a HelmOp for Clusters is unmet: %q", why)
	}
}

// kubeSystem is the namespace that identifies the management cluster.
func kubeSystem() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "system"}}
}
