// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// workers is the number of Clusters that are probed at the same time. A Cluster that does not respond occupies a worker
// for probeTimeout, which is half of the probe interval. So the manager detects the failure of 400 Clusters as fast as
// the failure of one. An idle worker needs some kilobytes.
const workers = 200

const kubeconfigSuffix = "-" + string(secret.Kubeconfig)

// MaxKubeconfigBytes is the size in bytes of the largest kubeconfig that is used. A usual kubeconfig has 6 kB, and each
// authority of a bundle adds 2 kB. A Secret may have 1 MiB, and the manager parses the kubeconfigs of many Clusters at
// the same time.
const MaxKubeconfigBytes = 64 << 10

// LargeKubeconfig is what the cache keeps instead of a kubeconfig of more than MaxKubeconfigBytes. The reader of
// kubeconfigs must refuse it.
const LargeKubeconfig = "the kubeconfig is too large"

// SetupWithManager adds the controller of links to a manager.
func (l *Links) SetupWithManager(mgr ctrl.Manager) error {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusterlink").
		For(cluster).
		WatchesRawSource(source.Func(l.begin)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(l)
	if err == nil {
		err = mgr.Add(manager.RunnableFunc(l.sweep))
	}
	if err != nil {
		return fmt.Errorf("setting up the connection controller: %w", err)
	}
	return nil
}

// begin stores the queue of the controller.
func (l *Links) begin(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = queue
	return nil
}

// KubeconfigHandler returns a handler for an informer of Secrets. It enqueues a Cluster when its kubeconfig appears or
// changes.
func (l *Links) KubeconfigHandler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.kubeconfigChanged(nil, obj) },
		UpdateFunc: l.kubeconfigChanged,
	}
}

func (l *Links) kubeconfigChanged(before, after any) {
	kubeconfig, ok := after.(*corev1.Secret)
	if !ok || !strings.HasSuffix(kubeconfig.Name, kubeconfigSuffix) {
		return
	}
	former, ok := before.(*corev1.Secret)
	if ok && bytes.Equal(former.Data[secret.KubeconfigDataName], kubeconfig.Data[secret.KubeconfigDataName]) {
		return
	}
	l.mu.RLock()
	queue := l.queue
	l.mu.RUnlock()
	// Without a queue, the controller has not started. It will reconcile all Clusters at its start.
	if queue != nil {
		queue.Add(ctrl.Request{NamespacedName: client.ObjectKey{
			Namespace: kubeconfig.Namespace, Name: strings.TrimSuffix(kubeconfig.Name, kubeconfigSuffix),
		}})
	}
}

// SlimSecret is a transform for the cache of the Secrets of Clusters. It keeps the names of Secrets, and kubeconfigs of
// up to MaxKubeconfigBytes. Instead of a larger kubeconfig, it keeps LargeKubeconfig. Users can create many Secrets
// with the label of a Cluster, also without a Cluster, and their labels, owners and types may be large, too.
func SlimSecret(obj any) (any, error) {
	s, ok := obj.(*corev1.Secret)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}}
	kubeconfig := s.Data[secret.KubeconfigDataName]
	if kubeconfig == nil || !strings.HasSuffix(s.Name, kubeconfigSuffix) {
		return kept, nil
	}
	if len(kubeconfig) > MaxKubeconfigBytes {
		kubeconfig = []byte(LargeKubeconfig)
	}
	kept.Data = map[string][]byte{secret.KubeconfigDataName: kubeconfig}
	return kept, nil
}
