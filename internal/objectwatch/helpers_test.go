// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of all integration tests. Each test has its own namespace and its own user agent.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// bench is the Watcher of one test, with access to the API server.
type bench struct {
	t         *testing.T
	namespace string
	agent     string
	server    *apiserver.Server
	kube      kubernetes.Interface
	watcher   *Watcher
	conn      Connection
	stop      func()

	mu       sync.Mutex
	requests map[types.NamespacedName]int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := sharedServer.Server(t)
	kube, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, namespace: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), server: server, kube: kube,
		requests: map[types.NamespacedName]int{},
	}
	// With -count, the server has the namespace of an earlier run, and has counted its requests.
	b.namespace += fmt.Sprintf("-%x", time.Now().UnixNano())
	b.agent = "watcher-" + b.namespace
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.conn = b.connection("cluster", b.server.RESTConfig())
	b.start()
	return b
}

// connection returns a connection whose requests have the user agent of the test.
func (b *bench) connection(cluster string, config *rest.Config) Connection {
	b.t.Helper()
	config.UserAgent = b.agent
	config.QPS, config.Burst = 1000, 1000
	mapping := rest.CopyConfig(b.server.RESTConfig())
	mapping.UserAgent = "mapper"
	client, err := discovery.NewDiscoveryClientForConfig(mapping)
	if err != nil {
		b.t.Fatal(err)
	}
	return Connection{
		Cluster: cluster, Config: config, Identity: config.Impersonate.UserName,
		Mapper: askingMapper{restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))},
	}
}

// askingMapper runs discovery again for an unknown kind.
type askingMapper struct{ meta.ResettableRESTMapper }

// RESTMapping implements meta.RESTMapper.
func (m askingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.ResettableRESTMapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		m.Reset()
		mapping, err = m.ResettableRESTMapper.RESTMapping(kind, versions...)
	}
	return mapping, err
}

// start starts a Watcher and counts its requests to the controller.
func (b *bench) start() {
	b.watcher = New(Options{Debounce: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := b.watcher.Source().Start(ctx, queue); err != nil {
		b.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.watcher.Start(ctx); err != nil {
			b.t.Error(err)
		}
	})
	running.Go(func() {
		for {
			request, shutdown := queue.Get()
			if shutdown {
				return
			}
			b.mu.Lock()
			b.requests[request.NamespacedName]++
			b.mu.Unlock()
			queue.Done(request)
		}
	})
	b.stop = sync.OnceFunc(func() {
		cancel()
		queue.ShutDown()
		running.Wait()
	})
	b.t.Cleanup(b.stop)
}

func (b *bench) asked(key types.NamespacedName) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[key]
}

// silence is how long a test waits for another request. It is much longer than the debounce time, because requests come
// late on a busy machine.
const silence = 2 * time.Second

// settled returns how often a release was requested, when no further requests follow.
func (b *bench) settled(key types.NamespacedName) int {
	b.t.Helper()
	last, since := 0, time.Time{}
	eventually(b.t, "the requests to stop", func() bool {
		if asked := b.asked(key); asked != last {
			last, since = asked, time.Now()
		}
		return last > 0 && time.Since(since) > silence
	})
	return last
}

// sent returns the requests of the Watcher to the API server that match the filters.
func (b *bench) sent(filters ...apiserver.Filter) []apiserver.Request {
	b.t.Helper()
	requests, err := b.server.Requests(append(filters, apiserver.ByUserAgent(b.agent))...)
	if err != nil {
		b.t.Fatal(err)
	}
	return requests
}

func (b *bench) look(key types.NamespacedName) Snapshot {
	snapshot, _ := b.watcher.Look(key)
	return snapshot
}

// synced waits until the state of everything in the plan of a release is known.
func (b *bench) synced(key types.NamespacedName) Snapshot {
	b.t.Helper()
	eventually(b.t, "to be synced", func() bool { return b.look(key).Synced })
	return b.look(key)
}

// becomes waits until an object has a state.
func (b *bench) becomes(key types.NamespacedName, ref inventory.Ref, what string, is func(State) bool) State {
	b.t.Helper()
	eventually(b.t, ref.String()+" to be "+what, func() bool {
		state, ok := b.look(key).Objects[ref]
		return ok && is(state)
	})
	return b.look(key).Objects[ref]
}

func (b *bench) status(key types.NamespacedName, ref inventory.Ref, want health.Status) State {
	b.t.Helper()
	return b.becomes(key, ref, string(want), func(s State) bool { return s.Health == want })
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// never checks that a condition stays false for some time.
func never(t *testing.T, during time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(during)
	defer deadline.Stop()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if holds() {
			t.Fatal(what)
		}
		select {
		case <-ticker.C:
		case <-deadline.C:
			return
		}
	}
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

func checker(t *testing.T, checks ...health.Check) *health.Checker {
	t.Helper()
	c, err := health.NewChecker(checks)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func helmLabels() map[string]string {
	return map[string]string{inventory.ManagedByLabel: inventory.ManagedByHelm}
}

func (b *bench) deploymentRef(name string) inventory.Ref {
	return inventory.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: b.namespace, Name: name}
}

func (b *bench) configMapRef(name string) inventory.Ref {
	return inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: name}
}

// createDeployment creates a Deployment. No controller acts on it.
func (b *bench) createDeployment(name string, labels map[string]string) inventory.Ref {
	b.t.Helper()
	selector := map[string]string{"app": name}
	_, err := b.kube.AppsV1().Deployments(b.namespace).Create(b.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.deploymentRef(name)
}

// rollOut writes the status that the controller of Deployments writes at the end.
func (b *bench) rollOut(name string) {
	b.t.Helper()
	d, err := b.kube.AppsV1().Deployments(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
		},
	}
	if _, err := b.kube.AppsV1().Deployments(b.namespace).UpdateStatus(b.t.Context(), d,
		metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) createConfigMap(name string) inventory.Ref {
	b.t.Helper()
	_, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(b.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: helmLabels()}, Data: map[string]string{"k": "v"},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.configMapRef(name)
}

func (b *bench) patchConfigMap(name, patch string) {
	b.t.Helper()
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(b.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) patchDeployment(name, patch string) {
	b.t.Helper()
	if _, err := b.kube.AppsV1().Deployments(b.namespace).Patch(b.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) deleteDeployment(name string) {
	b.t.Helper()
	if err := b.kube.AppsV1().Deployments(b.namespace).Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}
