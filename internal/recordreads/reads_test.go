// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// fixture reads records of clusters. Some clusters do not respond.
type fixture struct {
	*testing.T
	*Reads
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]

	mu    sync.Mutex
	hangs map[string]bool
	// takes is the response time of the other clusters.
	takes time.Duration
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, Reads: New(4), hangs: map[string]bool{}}
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

// observe makes the read of a pass. held is the time during which the read occupied its worker.
func (f *fixture) observe(cluster, name string) (held time.Duration, done bool, err error) {
	begun := time.Now()
	_, err, done = f.Observe(f.Context(), controllertest.RequestFor(name), cluster, cluster+" "+name,
		func(ctx context.Context) (model.Observation, error) { return f.read(ctx, cluster) })
	return time.Since(begun), done, err
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
		if n := f.unresponsive.Len(); n != 0 {
			t.Errorf("%d clusters are unresponsive", n)
		}
		if len(f.inFlight)+len(f.waiting)+len(f.withoutResponse) != 0 {
			t.Errorf("something is left: %v, %v, %v", f.inFlight, f.waiting, f.withoutResponse)
		}
	})
}

// TestSharedOutcome checks a release that waited for the read of another release. For a while, it must get the result
// that there was no response, but no other result of that read.
func TestSharedOutcome(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	s := New(1)
	s.tasks.Now = func() time.Time { return now }
	for _, name := range []string{"soon", "late"} {
		for i := range maxReadsWhenUnresponsive {
			if err, waits := s.begin("c", controllertest.RequestFor(fmt.Sprint(i))); err != nil || waits {
				t.Fatalf("%s: %v, %t", name, err, waits)
			}
		}
		s.timedOut("c", s.responses["c"])
		if err, waits := s.begin("c", controllertest.RequestFor(name)); err != nil || !waits {
			t.Fatalf("%s: %v, %t", name, err, waits)
		}
		for range maxReadsWhenUnresponsive {
			s.ended("c", false)
		}
	}
	if err, waits := s.begin("c", controllertest.RequestFor("soon")); !errors.Is(err, helmerr.ErrUnreachable) || waits {
		t.Errorf("one that comes back: %v, %t", err, waits)
	}
	now = now.Add(resultKept + time.Second)
	if err, waits := s.begin("c", controllertest.RequestFor("late")); err != nil || waits {
		t.Errorf("one that comes late: %v, %t", err, waits)
	}
	if len(s.withoutResponse) != 0 {
		t.Errorf("something is left: %v", s.withoutResponse)
	}
}

// TestResponseIsNotOvertakenByTimeout has a worker that stopped waiting. If the cluster has responded before, the
// timeout must not make it unresponsive.
func TestResponseIsNotOvertakenByTimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile    func(*Reads)
		unresponsive bool
	}{
		"no answer":            {func(*Reads) {}, true},
		"an answer":            {func(s *Reads) { s.ended("c", true) }, false},
		"no connection":        {func(s *Reads) { s.ended("c", false) }, true},
		"an answer of another": {func(s *Reads) { _, _ = s.begin("d", ctrl.Request{}); s.ended("d", true) }, true},
		"the cluster is gone":  {func(s *Reads) { s.ended("c", true); s.Forget("c") }, false},
		"gone, and no answer":  {func(s *Reads) { s.Forget("c"); s.ended("c", false) }, false},
		"it is gone, and hangs": {func(s *Reads) { s.Forget("c"); _, _ = s.begin("c", ctrl.Request{}); s.timedOut("c", 0) },
			true},
	} {
		s := New(1)
		_, _ = s.begin("c", ctrl.Request{})
		_, _ = s.begin("c", ctrl.Request{})
		s.ended("c", true)
		_, responses := s.grace("c")
		tc.meanwhile(s)
		s.timedOut("c", responses)
		if unresponsive := s.unresponsive.Has("c"); unresponsive != tc.unresponsive {
			t.Errorf("%s: unresponsive %t", name, unresponsive)
		}
	}
}

// TestFirstReadIsUsedInTwoPasses checks that one more pass uses the result of the first read, unless the result may be
// outdated.
func TestFirstReadIsUsedInTwoPasses(t *testing.T) {
	release := controllertest.RequestFor("a")
	for name, tc := range map[string]struct {
		between func(*fixture)
		key     string
		// want is true for each of the two later passes that needs no read.
		want [2]bool
	}{
		"a moment later":         {between: func(*fixture) {}, want: [2]bool{true, false}},
		"too late":               {between: func(*fixture) { <-time.After(firstReadKept) }},
		"after an action":        {between: func(f *fixture) { f.Outdate(release) }},
		"of a re-created object": {between: func(f *fixture) { f.Drop(release) }, want: [2]bool{false, true}},
		"as another user":        {between: func(*fixture) {}, key: "well a, as x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, key := newFixture(t), "well a"
				pass := func() (remembered bool) {
					if _, remembered = f.TakeFirst(release, key); !remembered {
						if _, done, err := f.observe("well", "a"); !done || err != nil {
							t.Fatal(done, err)
						}
					}
					return remembered
				}
				if pass() {
					t.Error("it is remembered before it was read")
				}
				tc.between(f)
				key = cmp.Or(tc.key, key)
				if got := [2]bool{pass(), pass()}; got != tc.want {
					t.Errorf("remembered %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestMayUseCachedOnlyWithoutAction(t *testing.T) {
	t.Parallel()
	for action, want := range map[model.Action]bool{
		model.ActionNone: true, model.ActionWait: false, model.ActionStall: false, model.ActionUpgrade: false,
		model.ActionRefuse: false,
	} {
		if got := MayUseCached(decide.Decision{Action: action}, model.Policy{}); got != want {
			t.Errorf("%s: %v, want %v", action, got, want)
		}
		if MayUseCached(decide.Decision{Action: action}, model.Policy{CorrectDrift: true}) {
			t.Errorf("%s, and drift is corrected by it", action)
		}
	}
}
