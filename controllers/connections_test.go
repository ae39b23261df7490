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
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// connecting is a Cluster and what the ClusterCache is told of it.
type connecting struct {
	*testing.T
	secrets     client.Client
	connections *Connections
	cluster     *clusterv1.Cluster
}

func newConnecting(t *testing.T) *connecting {
	secrets := fake.NewClientBuilder().Build()
	b := &connecting{T: t, secrets: secrets, connections: NewConnections(SafeKubeconfigs(secrets))}
	b.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one", UID: "first"}}
	b.cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	b.connections.NewQueue("test", nil)
	b.Cleanup(b.connections.queue.ShutDown)
	return b
}

func kubeconfigOf(cluster, data string) *corev1.Secret {
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: cluster + "-kubeconfig"}}
	if data != "" {
		kubeconfig.Data = map[string][]byte{"value": []byte(data)}
	}
	return kubeconfig
}

// write replaces the kubeconfig; empty is none.
func (b *connecting) write(data string) {
	b.Helper()
	_ = b.secrets.Delete(b.Context(), kubeconfigOf("one", ""))
	if data == "" {
		return
	}
	if err := b.secrets.Create(b.Context(), kubeconfigOf("one", data)); err != nil {
		b.Fatal(err)
	}
}

// wantFilter is one pass of the ClusterCache: does the connection stay, or is it made anew?
func (b *connecting) wantFilter(what string, keeps bool) {
	b.Helper()
	if got := b.connections.Filter(b.cluster); got != keeps {
		b.Errorf("%s: the connection stays: %t, want %t", what, got, keeps)
	}
}

// wantQueued says whether the ClusterCache is about to look at a Cluster.
func (b *connecting) wantQueued(what, cluster string) {
	b.Helper()
	<-time.After(time.Second)
	synctest.Wait()
	if cluster == "" {
		if n := b.connections.queue.Len(); n != 0 {
			b.Errorf("%s: the ClusterCache is to look at %d Clusters", what, n)
		}
		return
	}
	if b.connections.queue.Len() != 1 {
		b.Fatalf("%s: the ClusterCache is to look at %d Clusters", what, b.connections.queue.Len())
	}
	request, _ := b.connections.queue.Get()
	b.connections.queue.Done(request)
	if want := (types.NamespacedName{Namespace: "fleet", Name: cluster}); request.NamespacedName != want {
		b.Errorf("%s: the ClusterCache is to look at %s, want %s", what, request, want)
	}
}

// TestConnectionsFollowTheirOrigin holds that a connection is dropped, and made anew at once, if its kubeconfig or its Cluster is another,
// and never otherwise.
func TestConnectionsFollowTheirOrigin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newConnecting(t)
		b.wantFilter("before there is a kubeconfig", true)
		b.wantQueued("before there is a kubeconfig", "")
		b.write("one")
		b.wantFilter("the kubeconfig appeared", false)
		b.wantQueued("the kubeconfig appeared", "one")
		for range 2 {
			b.wantFilter("nothing changed", true)
		}
		b.wantQueued("nothing changed", "")

		b.write("two")
		b.wantFilter("the kubeconfig changed", false)
		b.wantQueued("the kubeconfig changed", "one")
		b.wantFilter("after that", true)
		b.write("")
		b.wantFilter("the kubeconfig is gone", true)
		b.write("two")
		b.wantFilter("the same kubeconfig is back", true)

		b.cluster.UID = "second"
		b.wantFilter("the Cluster was created anew", false)
		b.wantQueued("the Cluster was created anew", "one")
		b.wantFilter("after that", true)

		b.write("users: [{name: a, user: {exec: {command: rm, apiVersion: client.authentication.k8s.io/v1}}}]")
		b.wantFilter("the kubeconfig is one that is refused", false)
		b.wantQueued("the kubeconfig is one that is refused", "one")

		b.cluster.Status.Initialization.ControlPlaneInitialized = nil
		b.wantFilter("the control plane is not initialized", false)
		b.wantQueued("the control plane is not initialized", "")
		b.cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		b.wantFilter("it is now", true)
	})
}

// TestConnectionsHearOfKubeconfigs holds what makes the ClusterCache look at a Cluster.
func TestConnectionsHearOfKubeconfigs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newConnecting(t)
		heard := b.connections.Changed()
		heard.OnAdd(kubeconfigOf("one", "data"), false)
		b.wantQueued("a kubeconfig appears", "one")
		heard.OnUpdate(kubeconfigOf("one", "data"), kubeconfigOf("one", "other"))
		b.wantQueued("a kubeconfig changes", "one")
		labelled := kubeconfigOf("one", "data")
		labelled.Labels = map[string]string{"a": "b"}
		heard.OnUpdate(kubeconfigOf("one", "data"), labelled)
		b.wantQueued("a kubeconfig is labelled", "")
		heard.OnAdd(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one-ca"}}, false)
		b.wantQueued("another Secret appears", "")
		heard.OnDelete(kubeconfigOf("one", "data"))
		b.wantQueued("a kubeconfig is deleted", "")
	})
}

// TestConnectionsBeforeTheQueue holds that what is heard before the ClusterCache has begun does no harm: it begins with all Clusters.
func TestConnectionsBeforeTheQueue(t *testing.T) {
	t.Parallel()
	connections := NewConnections(fake.NewClientBuilder().Build())
	connections.Changed().OnAdd(kubeconfigOf("one", "data"), true)
	if connections.queue != nil {
		t.Error("there is a queue")
	}
}
