// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

var owner, other = client.ObjectKey{Namespace: "n", Name: "owner"}, client.ObjectKey{Namespace: "n", Name: "other"}

// fixture is a set of writes that observes a fake informer of ConfigMaps.
type fixture struct {
	*testing.T
	Writes
	informer *controllertest.FakeInformer
	client   client.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f, informers := &fixture{T: t}, &informertest.FakeInformers{}
	if err := f.Observe(t.Context(), informers, &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	f.informer = informer
	f.client = f.Client(fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).Build())
	return f
}

func configMap(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", ResourceVersion: version}}
}

func (f *fixture) wantSeen(want bool, after string) {
	f.Helper()
	if wait := f.Wait(owner); (wait == 0) != want {
		f.Errorf("after %s: Wait = %s", after, wait)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.wantSeen(true, "nothing")
	f.record(owner, configMap("7"), time.Now())
	f.wantSeen(false, "a write")
	if f.Wait(other) != 0 {
		t.Error("the write counts for another owner")
	}
	f.informer.Add(configMap("6"))
	f.wantSeen(false, "an older event")
	f.informer.Update(configMap("6"), configMap("8"))
	f.wantSeen(true, "a newer event")
	f.record(owner, configMap("5"), time.Now())
	f.wantSeen(true, "a write that the cache shows already")
	f.record(owner, configMap("9"), time.Now())
	f.record(owner, configMap("8"), time.Now())
	f.wantSeen(false, "two writes")
	f.informer.Delete(configMap("9"))
	f.wantSeen(true, "a deletion")
	f.record(owner, configMap("10"), time.Now())
	f.record(owner, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "99"}}, time.Now())
	f.informer.Add(configMap("no number"))
	f.informer.Add(configMap("10"))
	f.wantSeen(true, "a write of a kind that is not observed")
	f.showObject(toolscache.DeletedFinalStateUnknown{})
}

// TestWaitIsBounded has writes that the cache never shows.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.record(owner, configMap("7"), time.Now())
		for _, step := range []struct{ after, want time.Duration }{{0, minWait},
			{50 * time.Millisecond, 50 * time.Millisecond}, {time.Second, maxWait}} {
			time.Sleep(step.after)
			if got := f.Wait(owner); got != step.want {
				t.Errorf("after %s more: Wait = %s, want %s", step.after, got, step.want)
			}
		}
		time.Sleep(limit - 1050*time.Millisecond - time.Nanosecond)
		f.wantSeen(false, "almost 10 s")
		time.Sleep(time.Nanosecond)
		f.wantSeen(true, "10 s")
		for i := range 20 {
			f.record(client.ObjectKey{Name: fmt.Sprint(i)}, configMap(fmt.Sprint(100+i)), time.Now())
			time.Sleep(limit / 2)
		}
		if kept := len(f.byOwner); kept > 4 {
			t.Errorf("%d owners are remembered", kept)
		}
	})
}

func TestClientRecordsWrites(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*fixture, *corev1.ConfigMap) error{
		"Create": func(*fixture, *corev1.ConfigMap) error { return nil },
		"Update": func(f *fixture, c *corev1.ConfigMap) error {
			c.Data = map[string]string{"a": "b"}
			return f.client.Update(f.For(f.Context(), owner), c)
		},
		"Patch": func(f *fixture, c *corev1.ConfigMap) error {
			before := c.DeepCopy()
			c.Data = map[string]string{"a": "b"}
			return f.client.Patch(f.For(f.Context(), owner), c, client.MergeFrom(before))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, c := newFixture(t), configMap("")
			if err := f.client.Create(f.For(t.Context(), owner), c); err != nil {
				t.Fatal(err)
			}
			f.wantSeen(false, "Create")
			if name != "Create" {
				f.informer.Add(c)
				f.wantSeen(true, "the event of Create")
			}
			if err := write(f, c); err != nil {
				t.Fatal(err)
			}
			f.wantSeen(false, name)
			f.informer.Add(c)
			f.wantSeen(true, "the event of "+name)
			if err := f.client.Create(f.For(t.Context(), owner), configMap("")); err == nil {
				t.Fatal("a second ConfigMap was created")
			}
			f.wantSeen(true, "a write that was refused")
			if err := f.client.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			f.wantSeen(true, "a write outside of a pass")
		})
	}
}

// TestClientRecordsStatusWrites has a status that is written by the subresource.
func TestClientRecordsStatusWrites(t *testing.T) {
	t.Parallel()
	for _, update := range []bool{true, false} {
		f, informers := newFixture(t), &informertest.FakeInformers{}
		if err := f.Observe(t.Context(), informers, &corev1.Pod{}); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
		if err := f.client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		before := pod.DeepCopy()
		pod.Status.Message = "new"
		write := func() error { return f.client.Status().Patch(f.For(t.Context(), owner), pod, client.MergeFrom(before)) }
		if update {
			write = func() error { return f.client.Status().Update(f.For(t.Context(), owner), pod) }
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
		f.wantSeen(false, "a write of the status")
		f.showObject(pod)
		f.wantSeen(true, "its event")
	}
}

// TestReadsAreAsNewAsWrites writes to an API server and reads from a cache: where Wait is 0, a read never shows an
// older object.
func TestReadsAreAsNewAsWrites(t *testing.T) {
	t.Parallel()
	config := sharedServer.Server(t).RESTConfig()
	reader, err := cache.New(config, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	writes := &Writes{}
	if err := writes.Observe(t.Context(), reader, &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = reader.Start(t.Context()) }()
	if !reader.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache is not filled")
	}
	plain, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := writes.Client(plain), writes.For(t.Context(), owner)
	stale := 0
	for i := range 200 {
		written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "c-"}}
		if err := c.Create(ctx, written); err != nil {
			t.Fatal(err)
		}
		written.Data = map[string]string{"i": fmt.Sprint(i)}
		if err := c.Update(ctx, written); err != nil {
			t.Fatal(err)
		}
		for start := time.Now(); writes.Wait(owner) > 0; {
			if time.Since(start) > limit/2 {
				t.Fatal("the cache does not show what was written")
			}
			stale++
		}
		read := &corev1.ConfigMap{}
		if err := reader.Get(ctx, client.ObjectKeyFromObject(written), read); err != nil || read.Data["i"] != fmt.Sprint(i) {
			t.Fatalf("read %v, err = %v", read.Data, err)
		}
	}
	if stale == 0 {
		t.Error("the cache never lagged behind: the test shows nothing")
	}
}
