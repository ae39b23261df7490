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
	"bytes"
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	// maxRememberedConnections bounds the Clusters of which it is remembered what the connection was made from, some 150 bytes each.
	maxRememberedConnections = 1 << 15

	// reconnectDelay is when a Cluster is connected to whose connection was dropped.
	reconnectDelay = time.Millisecond

	// kubeconfigReadTimeout bounds the read of a kubeconfig, which comes from a cache.
	kubeconfigReadTimeout = 5 * time.Second

	kubeconfigSuffix = "-" + string(secret.Kubeconfig)
)

// Connections make the ClusterCache follow kubeconfigs. By itself it gives a connection up after five failed probes and then waits
// for half a minute: a rotated credential or a moved endpoint would cost a minute and more, and while the former API server
// answers still, it would never notice that another one is meant.
type Connections struct {
	kubeconfigs client.Reader

	// known are the origins of the connections.
	known *lru.Cache

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// connectionOrigin is what a connection is made from.
type connectionOrigin struct {
	// cluster is the UID of the Cluster: one that is created anew under the same name is another.
	cluster types.UID

	kubeconfig [sha256.Size]byte
}

// NewConnections returns Connections for the Clusters whose kubeconfigs a cache holds.
func NewConnections(kubeconfigs client.Reader) *Connections {
	return &Connections{kubeconfigs: kubeconfigs, known: lru.New(maxRememberedConnections)}
}

// Filter lets the ClusterCache connect to Clusters that can be served. Trying before that would fail, and the next try would come
// only after half a minute. A connection that was made from something else than is there now is dropped; the ClusterCache
// asks again at once.
func (c *Connections) Filter(cluster *clusterv1.Cluster) bool {
	key := client.ObjectKeyFromObject(cluster)
	if !isInitialized(cluster) {
		c.known.Remove(key)
		return false
	}
	origin, ok := c.originOf(cluster)
	before, isKnown := c.known.Get(key)
	if isKnown && (!ok || before == origin) {
		// Without a kubeconfig, there is nothing better to connect with.
		return true
	}
	c.known.Add(key, origin)
	if !isKnown {
		return true
	}
	c.enqueue(key, reconnectDelay)
	return false
}

// originOf is what a connection to a Cluster would be made from; ok is false, and the origin empty, if there is no kubeconfig.
func (c *Connections) originOf(cluster *clusterv1.Cluster) (origin connectionOrigin, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), kubeconfigReadTimeout)
	defer cancel()
	kubeconfig := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	// One that is refused is read as well, and counts: what it replaces must not be used any longer.
	_ = c.kubeconfigs.Get(ctx, key, kubeconfig)
	data := kubeconfig.Data[secret.KubeconfigDataName]
	if len(data) == 0 {
		return connectionOrigin{}, false
	}
	return connectionOrigin{cluster: cluster.UID, kubeconfig: sha256.Sum256(data)}, true
}

// NewQueue makes the queue of the ClusterCache.
func (c *Connections) NewQueue(name string, limiter workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	queue := priorityqueue.New(name, func(o *priorityqueue.Opts[ctrl.Request]) { o.RateLimiter = limiter })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = queue
	return queue
}

// enqueue has the ClusterCache look at a Cluster after a delay, once it has begun to look at any.
func (c *Connections) enqueue(cluster client.ObjectKey, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		c.queue.AddAfter(ctrl.Request{NamespacedName: cluster}, after)
	}
}

// Changed has the ClusterCache look at a Cluster when its kubeconfig appears or changes. It is for an informer of Secrets.
func (c *Connections) Changed() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.kubeconfigChanged(nil, obj) },
		UpdateFunc: func(before, after any) {
			c.kubeconfigChanged(before, after)
		},
	}
}

func (c *Connections) kubeconfigChanged(before, after any) {
	kubeconfig, ok := after.(*corev1.Secret)
	if !ok || !strings.HasSuffix(kubeconfig.Name, kubeconfigSuffix) {
		return
	}
	former, ok := before.(*corev1.Secret)
	if ok && bytes.Equal(former.Data[secret.KubeconfigDataName], kubeconfig.Data[secret.KubeconfigDataName]) {
		return
	}
	c.enqueue(client.ObjectKey{Namespace: kubeconfig.Namespace, Name: strings.TrimSuffix(kubeconfig.Name, kubeconfigSuffix)}, 0)
}
