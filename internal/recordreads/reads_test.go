// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// fixture reads records of clusters. Some clusters do not respond.
type fixture struct {
	*testing.T
	*Reads
	judge *clusterlink.Links
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]

	mu    sync.Mutex
	hangs map[string]bool
	// takes is the response time of the other clusters.
	takes time.Duration
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, judge: clusterlink.New(clusterlink.Options{}), hangs: map[string]bool{}}
	f.Reads = New(4, f.judge)
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(f.queue.ShutDown)
	if err := f.Source().Start(t.Context(), f.queue); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) set(cluster string, hangs bool, takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs[cluster], f.takes = hangs, takes
}

func (f *fixture) read(ctx context.Context, cluster string) (model.Observation, error) {
	f.mu.Lock()
	hangs, takes := f.hangs[cluster], f.takes
	f.mu.Unlock()
	if !hangs {
		<-time.After(takes)
		return model.Observation{}, nil
	}
	<-ctx.Done()
	return model.Observation{}, fmt.Errorf("%w: %w", helmerr.ErrUnreachable, ctx.Err())
}

// named returns the key of a cluster.
func named(cluster string) client.ObjectKey { return client.ObjectKey{Name: cluster} }

// observe makes the read of a pass. held is the time during which the read occupied its worker.
func (f *fixture) observe(cluster, name string) (held time.Duration, done bool, err error) {
	begun := time.Now()
	_, err, done = f.Observe(f.Context(), controllertest.RequestFor(name), named(cluster), cluster+" "+name,
		func(ctx context.Context) (model.Observation, error) { return f.read(ctx, cluster) })
	return time.Since(begun), done, err
}

// TestReadHasTheTimeOfItsBeginning checks the time of a read that is slower than the pass that began it.
func TestReadHasTheTimeOfItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, begun := newFixture(t), time.Now()
		observe := func() (model.Observation, bool) {
			observation, err, done := f.Observe(t.Context(), controllertest.RequestFor("a"), named("slow"), "slow a",
				func(context.Context) (model.Observation, error) {
					<-time.After(2 * async.Grace)
					return model.Observation{}, nil
				})
			if err != nil {
				t.Fatal(err)
			}
			return observation, done
		}
		if _, done := observe(); done {
			t.Fatal("the pass waits for the read")
		}
		<-time.After(3 * async.Grace)
		if observation, done := observe(); !done || !observation.ReadAt.Equal(begun) {
			t.Errorf("the read has ended: %t, it began at %s, want %s", done, observation.ReadAt, begun)
		}
	})
}

func TestUnresponsiveClusterHoldsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.set("hung", true, 0)
		if held, ok, err := f.observe("well", "a"); err != nil || !ok || held != 0 {
			t.Errorf("a cluster that is well: %v, %t, %s", err, ok, held)
		}
		for i := range 50 {
			want := time.Duration(0)
			if i == 0 {
				want = async.Grace
			}
			if held, ok, _ := f.observe("hung", fmt.Sprint(i)); ok || held != want {
				t.Fatalf("release %d holds its worker for %s, want %s", i, held, want)
			}
		}
		if reads := f.tasks.Len(); reads != maxReadsWhenUnresponsive {
			t.Errorf("%d reads of a cluster that does not answer, want %d", reads, maxReadsWhenUnresponsive)
		}
		for range 50 {
			request, _ := f.queue.Get()
			f.queue.Done(request)
			if held, ok, err := f.observe("hung", request.Name); !ok || !errors.Is(err, helmerr.ErrUnreachable) || held != 0 {
				t.Fatalf("%s: %v, %t, %s", request.Name, err, ok, held)
			}
		}
		if kept := f.tasks.Len(); kept != 0 {
			t.Errorf("%d results are kept", kept)
		}
		// When the cluster responds again, the first pass detects it without waiting. After it, the cluster is like any
		// other.
		f.set("hung", false, time.Millisecond)
		if held, ok, _ := f.observe("hung", "0"); ok || held != 0 {
			t.Error("a worker waits for a cluster that did not answer")
		}
		request, _ := f.queue.Get()
		f.queue.Done(request)
		for _, name := range []string{request.Name, "1"} {
			if _, ok, err := f.observe("hung", name); err != nil || !ok {
				t.Errorf("%s: %v, %t", name, err, ok)
			}
		}
		for _, cluster := range []string{"hung", "well"} {
			if f.judge.State(named(cluster)).Unresponsive {
				t.Errorf("cluster %s is unresponsive", cluster)
			}
		}
		if len(f.inFlight)+len(f.waiting)+f.tasks.Len() != 0 {
			t.Errorf("something is left: %v, %v, %d tasks", f.inFlight, f.waiting, f.tasks.Len())
		}
	})
}

// TestSharedOutcome checks a release that waited for the read of another release. For a while, it must get the result
// that there was no response, but no other result of that read.
func TestSharedOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.set("c", true, 0)
		for i := range maxReadsWhenUnresponsive {
			_, _, _ = f.observe("c", fmt.Sprint(i))
		}
		for _, name := range []string{"soon", "late"} {
			if _, done, err := f.observe("c", name); done || err != nil {
				t.Fatalf("%s: %t, %v", name, done, err)
			}
		}
		<-time.After(ObserveTimeout)
		if _, done, err := f.observe("c", "soon"); !done || !errors.Is(err, helmerr.ErrUnreachable) ||
			!errors.Is(err, errNoAnswer) {
			t.Errorf("one that comes back: %t, %v", done, err)
		}
		<-time.After(resultKept + time.Second)
		_, done, err := f.observe("c", "late")
		synctest.Wait()
		f.Reads.mu.Lock()
		inFlight := f.inFlight[named("c")]
		f.Reads.mu.Unlock()
		if done || err != nil || inFlight != 1 {
			t.Errorf("one that comes late starts no read: %t, %v", done, err)
		}
		<-time.After(ObserveTimeout + resultKept + time.Second)
		if f.tasks.Len() != 0 {
			t.Errorf("%d results are left", f.tasks.Len())
		}
	})
}

// TestResponseIsNotOvertakenByTimeout has a worker that stopped waiting. If the cluster has responded before, the
// timeout must not make it unresponsive.
func TestResponseIsNotOvertakenByTimeout(t *testing.T) {
	c, d := named("c"), named("d")
	for name, tc := range map[string]struct {
		meanwhile    func(*Reads)
		unresponsive bool
	}{
		"no answer":            {func(*Reads) {}, true},
		"an answer":            {func(s *Reads) { s.end(c, true) }, false},
		"no connection":        {func(s *Reads) { s.end(c, false) }, true},
		"an answer of another": {func(s *Reads) { s.begin(d, ctrl.Request{}, "", false); s.end(d, true) }, true},
		"the cluster is gone":  {func(s *Reads) { s.end(c, true); s.Forget(c) }, false},
		"gone, and no answer":  {func(s *Reads) { s.Forget(c); s.end(c, false) }, false},
		"it is gone, and hangs": {func(s *Reads) {
			s.Forget(c)
			s.begin(c, ctrl.Request{}, "", false)
			s.timedOut(c, time.Now())
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				for range 3 {
					f.begin(c, ctrl.Request{}, "", false)
				}
				f.end(c, true)
				<-time.After(time.Second)
				began := time.Now()
				<-time.After(time.Second)
				tc.meanwhile(f.Reads)
				f.timedOut(c, began)
				if unresponsive := f.judge.State(c).Unresponsive; unresponsive != tc.unresponsive {
					t.Errorf("unresponsive %t", unresponsive)
				}
			})
		})
	}
}
