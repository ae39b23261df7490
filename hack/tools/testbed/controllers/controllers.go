// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// controllers holds the constructors of controllers, by their names in kube-controller-manager. A constructor registers
// the controller's informers and returns its loop.
var controllers = map[string]func(context.Context, *cluster) (func(), error){
	"clusterrole-aggregation-controller": newClusterRoleAggregation,
	"daemonset-controller":               newDaemonSets,
	"deployment-controller":              newDeployments,
	"garbage-collector-controller":       newGarbageCollector,
	"namespace-controller":               newNamespaces,
	"replicaset-controller":              newReplicaSets,
	"serviceaccount-controller":          newServiceAccounts,
}

// These are the defaults of kube-controller-manager.
const (
	collectorWorkers = 20
	namespaceWorkers = 10
	workers          = 5
	collectorSync    = 30 * time.Second
	namespaceSync    = 5 * time.Minute
	maxBackoff       = 15 * time.Minute
)

func newClusterRoleAggregation(ctx context.Context, c *cluster) (func(), error) {
	rbac := c.client.RbacV1()
	controller := clusterroleaggregation.NewClusterRoleAggregation(c.informers.Rbac().V1().ClusterRoles(), rbac)
	return func() { controller.Run(ctx, workers) }, nil
}

func newDaemonSets(ctx context.Context, c *cluster) (func(), error) {
	apps, core := c.informers.Apps().V1(), c.informers.Core().V1()
	controller, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(),
		core.Nodes(), c.client, flowcontrol.NewBackOff(time.Second, maxBackoff))
	return func() { controller.Run(ctx, workers) }, err
}

func newDeployments(ctx context.Context, c *cluster) (func(), error) {
	apps := c.informers.Apps().V1()
	controller, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(),
		c.informers.Core().V1().Pods(), c.client)
	return func() { controller.Run(ctx, workers) }, err
}

// newGarbageCollector also refreshes the list of kinds that the cluster serves.
func newGarbageCollector(ctx context.Context, c *cluster) (func(), error) {
	ofMetadata := metadatainformer.NewSharedInformerFactory(c.metadata, resync)
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, c.metadata, c.mapper,
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(c.informers, ofMetadata), c.started)
	controller, err := garbagecollector.NewComposedGarbageCollector(ctx, c.client, c.metadata, c.mapper, graph)
	return func() {
		var running sync.WaitGroup
		running.Go(func() { controller.Run(ctx, collectorWorkers, collectorSync) })
		running.Go(func() { controller.Sync(ctx, c.client.Discovery(), collectorSync) })
		running.Wait()
	}, err
}

func newNamespaces(ctx context.Context, c *cluster) (func(), error) {
	controller := namespace.NewNamespaceController(ctx, c.client, c.metadata,
		c.client.Discovery().ServerPreferredNamespacedResources, c.informers.Core().V1().Namespaces(), namespaceSync,
		corev1.FinalizerKubernetes)
	return func() { controller.Run(ctx, namespaceWorkers) }, nil
}

func newReplicaSets(ctx context.Context, c *cluster) (func(), error) {
	controller := replicaset.NewReplicaSetController(ctx, c.informers.Apps().V1().ReplicaSets(),
		c.informers.Core().V1().Pods(), c.client, replicaset.BurstReplicas)
	return func() { controller.Run(ctx, workers) }, nil
}

func newServiceAccounts(ctx context.Context, c *cluster) (func(), error) {
	core := c.informers.Core().V1()
	controller, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(),
		core.Namespaces(), c.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	return func() { controller.Run(ctx, 1) }, err
}
