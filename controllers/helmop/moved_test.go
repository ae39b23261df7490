// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestMovedReleasesWaitForClusters has HelmOpReleases from another management cluster whose Clusters do not exist.
// HelmOp keeps them until their Clusters exist, until a user gives one up, and until the HelmOp is deleted.
func TestMovedReleasesWaitForClusters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	names := []string{"one", "two", "three"}
	for _, name := range names {
		f.cluster(name)
	}
	helmOp := f.helmOp(nil)
	f.Eventually(f.releases).Should(gomega.HaveLen(len(names)))
	change := func(name string, change func(*addonsv1.HelmOpRelease)) {
		f.Helper()
		release := f.releases()[name]
		before := release.DeepCopy()
		change(release)
		f.must(f.Patch(f.Context(), release, client.MergeFrom(before)))
	}
	waits := func(clusters int32) {
		f.Helper()
		f.eventually(helmOp, func(g gomega.Gomega) {
			g.Expect(helmOp.Status.Clusters).To(gomega.HaveField("Waiting", clusters))
		})
	}
	for _, name := range names {
		change(name, func(r *addonsv1.HelmOpRelease) {
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, addonsv1.ManagementClusterAnnotation, "former")
			r.OwnerReferences = nil
		})
	}
	// HelmOp has seen the annotations when it has restored the owner references.
	f.Eventually(func(g gomega.Gomega) {
		for _, release := range f.releases() {
			g.Expect(metav1.IsControlledBy(release, helmOp)).To(gomega.BeTrue(), release.Name)
		}
	}).Should(gomega.Succeed())
	for _, name := range names {
		f.must(f.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}))
	}
	waits(3)
	f.Expect(conditions.GetReason(helmOp, addonsv1.ReadyCondition)).To(gomega.Equal(addonsv1.WaitingForClustersReason))
	f.Consistently(func(g gomega.Gomega) {
		for _, release := range f.releases() {
			g.Expect(release.DeletionTimestamp).To(gomega.BeNil(), release.Name)
		}
	}).WithTimeout(time.Second).Should(gomega.Succeed())

	change("two", func(r *addonsv1.HelmOpRelease) {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, addonsv1.OrphanAnnotation, "true")
	})
	f.Eventually(func(g gomega.Gomega) {
		g.Expect(f.releases()["two"].DeletionTimestamp).NotTo(gomega.BeNil())
	}).Should(gomega.Succeed())
	f.cluster("one")
	waits(1)
	f.Expect(f.releases()["one"].Annotations).To(gomega.HaveKeyWithValue(addonsv1.ManagementClusterAnnotation, "former"))

	f.must(f.Delete(t.Context(), helmOp))
	f.Eventually(func(g gomega.Gomega) {
		for _, release := range f.releases() {
			g.Expect(release.DeletionTimestamp).NotTo(gomega.BeNil(), release.Name)
		}
	}).Should(gomega.Succeed())
	for _, release := range f.releases() {
		before := release.DeepCopy()
		release.Finalizers = nil
		f.must(client.IgnoreNotFound(f.Patch(t.Context(), release, client.MergeFrom(before))))
	}
}
