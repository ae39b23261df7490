// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func ref(kind, name string) inventory.Ref {
	return inventory.Ref{Group: "apps", Version: "v1", Kind: kind, Namespace: "ns", Name: name}
}

func TestPlansSelectObjects(t *testing.T) {
	t.Parallel()
	deployment, config := ref("Deployment", "d"),
		inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c"}
	all := []inventory.Ref{deployment, config, deployment}
	checked := checker(t, health.Check{APIVersion: "v1", Kind: "ConfigMap", Current: "true"})
	for _, tt := range []struct {
		name string
		plan Plan
		want []inventory.Ref
	}{
		{"nothing asked for", Plan{Objects: all}, nil},
		{"health", Plan{Objects: all, Checker: checker(t)}, []inventory.Ref{deployment}},
		{"health by a check", Plan{Objects: all, Checker: checked}, []inventory.Ref{config, deployment}},
		{"drift", Plan{Objects: all, Drift: true}, []inventory.Ref{config, deployment}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []inventory.Ref
			for _, o := range newRelease(key("r"), 0, tt.plan).objects {
				got = append(got, o.ref.Value())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}

	var many []inventory.Ref
	for i := range MaxObjects + 5 {
		many = append(many, ref("Deployment", fmt.Sprint(i)))
	}
	if got := newRelease(key("r"), 0, Plan{Objects: many, Drift: true}); len(got.objects) != MaxObjects ||
		got.unknown != MaxObjects {
		t.Errorf("%d objects are followed", len(got.objects))
	}
}

func TestApplyReportsChanges(t *testing.T) {
	t.Parallel()
	r := newRelease(key("r"), 0, Plan{Objects: []inventory.Ref{ref("Deployment", "a"), ref("Deployment", "b")},
		Checker: checker(t)})
	current := finding{exists: true, fingerprint: 1, uid: "u", status: health.Current}
	if r.apply(0, current) {
		t.Error("half of the objects cause a report")
	}
	if !r.apply(1, current) {
		t.Error("that all is known is news")
	}
	if r.apply(1, current) {
		t.Error("the same again is no news")
	}
	for _, change := range []func(*finding){
		func(f *finding) { f.fingerprint++ }, func(f *finding) { f.status = health.Failed },
		func(f *finding) { f.message = "x" }, func(f *finding) { f.optOut = true }, func(f *finding) { *f = absent },
	} {
		f := current
		change(&f)
		if r.apply(1, current); !r.apply(1, f) {
			t.Errorf("%+v is news", f)
		}
	}
	r.apply(1, current)
	newer := current
	newer.generation, newer.isVersion = 7, true
	if r.apply(1, newer) {
		t.Error("a resource version alone is no news")
	}
	if got := r.objects[1].generation; got != 7 {
		t.Errorf("it is remembered as %d", got)
	}
	newer.version, newer.deletedWith = 8, "ns/r"
	if r.apply(1, newer) {
		t.Error("the version of a whole object alone is no news")
	}
	if newer.generation, newer.isVersion = 8, false; !r.apply(1, newer) {
		t.Error("a generation is news")
	}
}

func TestRequestsAreCollected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notifier{debounce: 250 * time.Millisecond}
		n.changed(key("early"))
		n.changed(key("early"))
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		ctx, cancel := context.WithCancel(t.Context())
		if err := n.start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			n.changed(key("late"))
		}
		synctest.Wait()
		if queue.Len() != 0 {
			t.Errorf("%d requests before their time", queue.Len())
		}
		<-time.After(time.Second)
		synctest.Wait()
		if queue.Len() != 2 {
			t.Errorf("%d requests", queue.Len())
		}
		cancel()
		synctest.Wait()
		n.changed(key("after"))
		queue.ShutDown()
		synctest.Wait()
	})
}

// A controller may reconcile a release early, for another reason. A change after this pass must still be reported.
func TestChangeAfterEarlyReconcileIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notifier{debounce: 250 * time.Millisecond}
		queue := priorityqueue.New[reconcile.Request]("early")
		if err := n.start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		n.changed(key("one"))
		queue.Add(reconcile.Request{NamespacedName: key("one")})
		request, _ := queue.Get()
		queue.Done(request)
		n.changed(key("one"))
		<-time.After(time.Second)
		synctest.Wait()
		if queue.Len() != 1 {
			t.Errorf("%d requests, want that for the second change", queue.Len())
		}
		queue.ShutDown()
		synctest.Wait()
	})
}

func TestRequestsOfChangingReleasesAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := notifier{debounce: 250 * time.Millisecond}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		if err := n.start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		requests := map[types.NamespacedName]int{}
		go func() {
			for request, shutdown := queue.Get(); !shutdown; request, shutdown = queue.Get() {
				requests[request.NamespacedName]++
				queue.Done(request)
			}
		}()
		for range 600 {
			n.changed(key("restless"))
			<-time.After(time.Second)
		}
		n.changed(key("calm"))
		<-time.After(time.Second)
		synctest.Wait()
		if got := requests[key("restless")]; got < 60 || got > 90 {
			t.Errorf("%d requests in ten minutes", got)
		}
		if got := requests[key("calm")]; got != 1 {
			t.Errorf("%d requests for another release", got)
		}
		n.forget(key("restless"))
		n.forget(key("calm"))
		if len(n.paces) > 0 {
			t.Error("forgotten releases are remembered")
		}
		queue.ShutDown()
		synctest.Wait()
	})
}

// TestQueueIsUsedWithoutLock checks that a change does not wait for the queue: the change happens under the lock of the
// Watcher, and the queue looks up the state of each release.
func TestQueueIsUsedWithoutLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, queue := notifier{debounce: time.Second}, slowQueue{added: make(chan types.NamespacedName)}
		if err := n.start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			n.changed(key("one"))
			synctest.Wait() // The queue is in use.
			n.changed(key("two"))
			if first, second := <-queue.added, <-queue.added; first != key("one") || second != key("two") {
				t.Errorf("requests for %s and %s", first, second)
			}
		}
	})
}

// slowQueue is a queue whose AddAfter ends when the release is received from added.
type slowQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added chan types.NamespacedName
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q slowQueue) AddAfter(request reconcile.Request, _ time.Duration) {
	q.added <- request.NamespacedName
}

// mapper behaves like a cluster that does not answer.
type mapper struct {
	meta.RESTMapper
	mu    sync.Mutex
	asked int
}

func (m *mapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	return nil, errors.New("no server answers")
}

// started returns a running Watcher. end stops it, and checks how it ended.
func started(t testing.TB) (w *Watcher, end func()) {
	t.Helper()
	w = New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Start(ctx) }()
	return w, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestFollowUnreachableCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, end := started(t)
		m := &mapper{}
		conn := Connection{Cluster: "c", Config: &rest.Config{Host: "https://127.0.0.1:1"}, Mapper: m}
		// A kind that is not built in needs discovery.
		plan := Plan{Objects: []inventory.Ref{{Group: "example.com", Version: "v1", Kind: "Widget", Name: "a"}},
			Checker: checker(t)}
		w.Follow(key("r"), conn, plan)
		<-time.After(10 * time.Minute)
		if snapshot, ok := w.Look(key("r")); !ok || snapshot.Synced || snapshot.Err == nil {
			t.Errorf("got %+v", snapshot)
		}
		if m.asked < 10 || m.asked > 60 {
			t.Errorf("asked %d times in ten minutes", m.asked)
		}
		w.Forget(key("r"))
		synctest.Wait()
		asked := m.asked
		<-time.After(10 * time.Minute)
		if m.asked != asked {
			t.Error("a reconciliation is requested for no release")
		}
		end()
		w.Follow(key("r"), conn, plan)
		if _, ok := w.Look(key("r")); ok {
			t.Error("followed after the end")
		}
	})
}

// TestDisconnectEndsAllLinksOfACluster checks that the releases of a cluster with all identities are disconnected, and
// the releases of other clusters are not.
func TestDisconnectEndsAllLinksOfACluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, end := started(t)
		// A kind that is not built in needs discovery.
		plan := Plan{Objects: []inventory.Ref{{Group: "example.com", Version: "v1", Kind: "Widget", Name: "a"}},
			Checker: checker(t)}
		follow := func(name, cluster, identity string) {
			w.Follow(key(name), Connection{Cluster: cluster, Identity: identity, Mapper: &mapper{},
				Config: &rest.Config{Host: "https://127.0.0.1:1"}}, plan)
		}
		follow("one", "a", "")
		follow("two", "a", "tenant")
		follow("other", "b", "")
		w.Disconnect("a")
		w.Disconnect("unknown")
		for name, want := range map[string]bool{"one": true, "two": true, "other": false} {
			if snapshot, _ := w.Look(key(name)); errors.Is(snapshot.Err, ErrDisconnected) != want {
				t.Errorf("%s: %v", name, snapshot.Err)
			}
		}
		if len(w.links) != 1 || len(w.links["b"]) != 1 {
			t.Errorf("left: %v", w.links)
		}
		follow("two", "a", "tenant")
		w.Forget(key("one"))
		w.Forget(key("two"))
		w.Forget(key("other"))
		if len(w.links) != 0 {
			t.Errorf("left without releases: %v", w.links)
		}
		end()
	})
}

func TestFollowInvalidConfig(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	plan := Plan{Objects: []inventory.Ref{ref("Deployment", "a")}, Drift: true}
	w.Follow(key("r"), Connection{Cluster: "c", Config: &rest.Config{Host: "://"}}, plan)
	if snapshot, ok := w.Look(key("r")); !ok || snapshot.Err == nil || snapshot.Synced {
		t.Errorf("got %+v", snapshot)
	}
	w.Forget(key("r"))
	w.Forget(key("r"))
	w.Disconnect("c")
	if _, ok := w.Look(types.NamespacedName{Name: "never"}); ok {
		t.Error("something is known of nothing")
	}
}

// BenchmarkFollowUnchanged measures the cost in this package of a pass over an unchanged release.
func BenchmarkFollowUnchanged(b *testing.B) {
	w, end := started(b)
	checker, err := health.NewChecker(nil)
	if err != nil {
		b.Fatal(err)
	}
	plan := Plan{Checker: checker}
	for i := range 20 {
		plan.Objects = append(plan.Objects, ref("Deployment", fmt.Sprint(i)))
	}
	conn := Connection{Cluster: "c", Config: &rest.Config{Host: "https://127.0.0.1:1"}, Mapper: &mapper{}}
	b.ReportAllocs()
	for b.Loop() {
		w.Follow(key("r"), conn, plan)
		w.Look(key("r"))
	}
	end()
}
