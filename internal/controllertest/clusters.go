// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// LifeNow is the current time in tests of the life of Clusters.
var LifeNow = time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)

// HeldSince is the annotation of a hold that began a moment before LifeNow.
const HeldSince = "2026-11-21T22:25:00Z" // 5 minutes ago

// DeletingCluster returns a Cluster under deletion.
func DeletingCluster(hold string, paused bool) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u",
		DeletionTimestamp: &metav1.Time{Time: LifeNow}, Finalizers: []string{clusterv1.ClusterFinalizer},
		Annotations: map[string]string{}}}
	if hold != "" {
		cluster.Annotations[addonsv1.DeletionHoldAnnotation] = hold
	}
	if paused {
		cluster.Spec.Paused = ptr.To(true)
	}
	return cluster
}

// HoldingRelease returns a release that must be uninstalled before its Cluster is deleted.
func HoldingRelease(timeout time.Duration) *addonsv1.HelmOpRelease {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h-c", UID: "r",
		Finalizers: []string{addonsv1.HelmOpReleaseFinalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: addonsv1.GroupVersion.String(), Kind: apiutil.HelmOpKind,
			Name: "h", UID: "o", Controller: ptr.To(true)}}}}
	release.Spec.ClusterRef.Name = "c"
	release.Spec.DeletionPolicy = addonsv1.DeletionPolicyUninstall
	release.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{Timeout: metav1.Duration{Duration: timeout}}
	return release
}

// HoldingHelmOp returns the HelmOp of HoldingRelease.
func HoldingHelmOp() *addonsv1.HelmOp {
	return &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", UID: "o"},
		Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
}

// OfNamespace moves a release to another namespace than its Cluster.
func OfNamespace(namespace string, release *addonsv1.HelmOpRelease) *addonsv1.HelmOpRelease {
	release.Spec.ClusterRef.Namespace, release.Namespace = release.Namespace, namespace
	return release
}

// ReleaseFor returns a release for a Cluster.
func ReleaseFor(namespace, name string, cluster addonsv1.ClusterReference) *addonsv1.HelmOpRelease {
	return &addonsv1.HelmOpRelease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       addonsv1.HelmOpReleaseSpec{ClusterRef: cluster},
	}
}

// ReleaseBench is a HelmOp with revisions, a Cluster of another namespace, and a release for it with revision 1.
type ReleaseBench struct {
	*testing.T
	HelmOp    *addonsv1.HelmOp
	Revisions []*addonsv1.HelmOpRevision
	namespace *corev1.Namespace
	Cluster   *clusterv1.Cluster
	Release   *addonsv1.HelmOpRelease
}

// NewReleaseBench returns a ReleaseBench with all objects.
func NewReleaseBench(t *testing.T) *ReleaseBench {
	b := &ReleaseBench{T: t}
	b.HelmOp = &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "calico", UID: "u"},
		Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
	b.HelmOp.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{AuthorizationServiceAccountName: "installer"}
	b.HelmOp.Spec.Release.Name = "three"
	b.Revisions = []*addonsv1.HelmOpRevision{b.revision(1, "one"), b.revision(2, "two")}
	b.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{"team": "a"}}}
	b.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "one"}}
	b.Release = ReleaseFor("platform", "child", addonsv1.ClusterReference{Namespace: "team", Name: "one"})
	b.Release.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b.HelmOp,
		addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}
	b.Release.Spec.Release = addonsv1.ReleaseIdentity{Name: "one", Namespace: apiutil.DefaultReleaseNamespace}
	b.Release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, Reason: addonsv1.ReleaseRolloutUpdated}
	return b
}

// revision returns a revision under which the release has the given name.
func (b *ReleaseBench) revision(number int64, name string) *addonsv1.HelmOpRevision {
	revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "platform",
		Name: apiutil.RevisionName("calico", number)}}
	revision.Spec.Number = number
	revision.Spec.HelmOp = *b.HelmOp.Spec.DeepCopy()
	revision.Spec.HelmOp.Release.Name = name
	return revision
}

// Client returns a client with copies of all objects, because the fake client writes resource versions into its
// objects.
func (b *ReleaseBench) Client() client.Client {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme, corev1.AddToScheme,
		authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	builder := WithIndexes(fake.NewClientBuilder().WithScheme(scheme)).WithStatusSubresource(&addonsv1.HelmOpRelease{}).
		WithObjects(b.namespace.DeepCopy(), b.Cluster.DeepCopy(), b.Release.DeepCopy())
	if b.HelmOp != nil {
		builder.WithObjects(b.HelmOp.DeepCopy())
	}
	for _, revision := range b.Revisions {
		builder.WithObjects(revision.DeepCopy())
	}
	return builder.Build()
}

// ManagementClient returns a client of a management cluster that has a Cluster of the same name.
func ManagementClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		addonsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects = append(Copies(objects...),
		KubeSystem(),
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: clusterlink.Management.Name, UID: "c"}})
	return WithIndexes(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(objects...).Build()
}

// ManagementHelmOp returns a HelmOp for the management cluster.
func ManagementHelmOp(namespace string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "platform", UID: "h"},
		Spec: addonsv1.HelmOpSpec{
			ManagementCluster: &addonsv1.ManagementCluster{ImpersonateServiceAccountName: "admin"},
			Release:           addonsv1.ReleaseTemplate{Namespace: "system"},
		},
	}
}

// ManagementRelease returns the release of a HelmOp in the management cluster.
func ManagementRelease(helmOp *addonsv1.HelmOp) *addonsv1.HelmOpRelease {
	release := SameNameRelease(helmOp)
	release.Name = apiutil.ChildName(helmOp.Name, apiutil.ManagementTitle)
	release.Spec.ClusterRef = apiutil.ClusterRefOf(helmOp.Namespace, clusterlink.Management)
	return release
}

// SameNameRelease returns the release of a HelmOp in the Cluster that has the name of the management cluster.
func SameNameRelease(helmOp *addonsv1.HelmOp) *addonsv1.HelmOpRelease {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: helmOp.Namespace, Name: apiutil.ChildName(helmOp.Name, clusterlink.Management.Name),
		Labels: apiutil.ChildSelector(helmOp),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(helmOp,
			addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))},
	}}
	release.Spec.ClusterRef.Name = clusterlink.Management.Name
	release.Spec.Release = addonsv1.ReleaseIdentity{Namespace: "system", Name: "platform"}
	return release
}
