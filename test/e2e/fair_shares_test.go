// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

const (
	// fairWorkers is the number of workers of the manager of TestFairShares; five of them may act at the same time.
	// fairShare is the number of slots that one namespace gets.
	fairWorkers, fairShare = 6, 4

	// greedyHelmOps is the number of HelmOps of the greedy tenant for each of two Clusters.
	greedyHelmOps = 8
)

// TestFairShares has a greedy tenant. It has hooks that never end, more requests than the registry may get, and
// Clusters of kinds that the manager must not read. During this time, another tenant's release is installed, upgraded
// and uninstalled. The manager's memory stays bounded.
func TestFairShares(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{ManagerArgs: []string{
		fmt.Sprintf("--helmoprelease-concurrency=%d", fairWorkers), "--registry-requests-per-second=3",
		"--registry-max-requests=3", "--memory-limit=" + memoryLimit,
	}})
	greedy, other := newScenarioIn(t, env), newScenarioIn(t, env)
	hogs := greedy.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.2.0.0/16"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.3.0.0/16"}})
	one := other.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	neighbour := newNeighbour(one)
	memory := greedy.followMemory()
	for i := range greedyHelmOps {
		greedy.create(greedy.newHelmOp(fmt.Sprint("slow-", i), forAll, func(h *addonsv1.HelmOp) {
			h.Spec.Source = env.Source("charts/"+environment.ChartSlow, addonsv1.ArtifactReference{Tag: "1.0.0"})
			h.Spec.Source.Interval = metav1.Duration{Duration: time.Second}
			h.Spec.Release.Namespace = slowNamespace
			h.Spec.Values = slowValues("one", "pre-install")
			h.Spec.Install = &addonsv1.InstallOptions{Timeout: &metav1.Duration{Duration: 30 * time.Minute}}
		}))
	}
	greedy.step("the greedy tenant gets its share of the slots", func(s *scenario) {
		s.Eventually(func(ctx context.Context) (int,
			error) {
			return runningHooks(ctx, hogs)
		}).WithContext(s.Context()).Should(gomega.Equal(fairShare))
		s.Consistently(func(ctx context.Context) (int,
			error) {
			return runningHooks(ctx, hogs)
		}).WithContext(s.Context()).Should(gomega.Equal(fairShare))
	})
	greedy.step("the greedy tenant has a Cluster of a kind that the manager may not read", func(s *scenario) {
		helmOp := s.newHelmOp("unreadable", forAll)
		s.create(helmOp)
		s.createUnreadableCluster("unreadable")
		s.eventually(helmOp, failure("unreadable", addonsv1.ObjectReadFailedReason,
			"manager may not list widgets.fair.example",
			"allow the manager to list and watch"))
	})
	for range 3 {
		neighbour.expectServed(t)
	}
	neighbour.expectUninstalled(t)
	greedy.step("the greedy tenant keeps its share, and gets no more", func(s *scenario) {
		running, err := runningHooks(s.Context(), hogs)
		s.must(err)
		s.Expect(running).To(gomega.Equal(fairShare))
	})
	greedy.step("the manager's memory is bounded", memory.expectBounded)
}

// runningHooks returns the number of Jobs of hooks in all of the workload clusters.
func runningHooks(ctx context.Context, workloads []*workload) (int, error) {
	running := 0
	for _, w := range workloads {
		jobs := &batchv1.JobList{}
		if err := w.List(ctx, jobs, client.InNamespace(slowNamespace)); err != nil {
			return 0, err
		}
		running += len(jobs.Items)
	}
	return running, nil
}

// createUnreadableCluster creates a Cluster whose control plane is ready according to its status. The manager must not
// read the kind of its infrastructure.
func (s *scenario) createUnreadableCluster(name string) {
	s.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.fair.example",
			"labels": map[string]any{clusterv1.GroupVersion.Group + "/" + clusterv1.GroupVersion.Version: "v1"}},
		"spec": map[string]any{
			"group": "fair.example", "scope": "Namespaced",
			"names": map[string]any{"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	s.create(crd)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "fair.example", Kind: "Widget",
		Name: name}
	s.create(cluster)
	s.Cleanup(func() {
		// Cluster API needs the kind to delete the Cluster.
		ctx := context.Background()
		s.Expect(client.IgnoreNotFound(s.client.Delete(ctx, cluster))).To(gomega.Succeed())
		s.Eventually(func() bool {
			return apierrors.IsNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster))
		}).Should(gomega.BeTrue(), "Cluster %s still exists", name)
		s.Expect(s.client.Delete(ctx, crd)).To(gomega.Succeed())
	})
	before := cluster.DeepCopy()
	initialized := true
	cluster.Status.Initialization.ControlPlaneInitialized = &initialized
	s.must(s.client.Status().Patch(s.Context(), cluster, client.MergeFrom(before)))
}
