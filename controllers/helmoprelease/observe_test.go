// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

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

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// hangingEngine is clusters some of which do not answer.
type hangingEngine struct {
	Engine

	mu    sync.Mutex
	hangs map[string]bool
	// takes is how long the others take.
	takes time.Duration
}

func (e *hangingEngine) hang(cluster string, hangs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hangs[cluster] = hangs
}

func (e *hangingEngine) take(takes time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.takes = takes
}

func (e *hangingEngine) Observe(ctx context.Context, target model.Target, _, _ string) (model.Observation, error) {
	e.mu.Lock()
	hangs, takes := e.hangs[target.Key], e.takes
	e.mu.Unlock()
	if !hangs {
		<-time.After(takes)
		return model.Observation{}, nil
	}
	<-ctx.Done()
	return model.Observation{}, fmt.Errorf("%w: %w", helmerr.ErrUnreachable, ctx.Err())
}

// readBench looks at releases of clusters.
type readBench struct {
	*testing.T
	r      *Reconciler
	engine *hangingEngine
	queue  workqueue.TypedRateLimitingInterface[ctrl.Request]
}

func newReadBench(t *testing.T) *readBench {
	b := &readBench{T: t, engine: &hangingEngine{hangs: map[string]bool{}}}
	b.r = &Reconciler{engine: b.engine, reads: recordreads.New(4), slots: newActionSlots(4, 0, &async.Waker{}), now: time.Now}
	b.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(b.queue.ShutDown)
	if err := b.r.reads.Running.Waker.Source().Start(t.Context(), b.queue); err != nil {
		t.Fatal(err)
	}
	return b
}

// look is a pass, which tells how long it held its worker.
func (b *readBench) look(cluster, name string) (held time.Duration, ok bool, err error) {
	release := controllertest.ReleaseFor("default", name, addonsv1.ClusterReference{Name: cluster})
	begun := time.Now()
	_, err, ok = b.r.observe(b.Context(), release, model.Target{Key: cluster}, model.Desired{Name: name})
	return time.Since(begun), ok, err
}

func TestClusterThatHangsHoldsOneWorkerForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newReadBench(t)
		b.engine.hang("hung", true)
		if held, ok, err := b.look("well", "a"); err != nil || !ok || held != 0 {
			t.Errorf("a cluster that is well: %v, %t, %s", err, ok, held)
		}
		for i := range 50 {
			want := time.Duration(0)
			if i == 0 {
				want = async.Grace
			}
			if held, ok, _ := b.look("hung", fmt.Sprint(i)); ok || held != want {
				t.Fatalf("release %d holds its worker for %s, want %s", i, held, want)
			}
		}
		if reads := b.r.reads.Running.Len(); reads != recordreads.ReadsInDoubt {
			t.Errorf("%d reads of a cluster that does not answer, want %d", reads, recordreads.ReadsInDoubt)
		}
		for range 50 {
			request, _ := b.queue.Get()
			b.queue.Done(request)
			if held, ok, err := b.look("hung", request.Name); !ok || !errors.Is(err, helmerr.ErrUnreachable) || held != 0 {
				t.Fatalf("%s: %v, %t, %s", request.Name, err, ok, held)
			}
		}
		if kept := b.r.reads.Running.Len(); kept != 0 {
			t.Errorf("%d results are kept", kept)
		}
		// When it answers again, one pass finds out without waiting, and the others are as with every cluster.
		b.engine.hang("hung", false)
		b.engine.take(time.Millisecond)
		if held, ok, _ := b.look("hung", "0"); ok || held != 0 {
			t.Error("a worker waits for a cluster that did not answer")
		}
		request, _ := b.queue.Get()
		b.queue.Done(request)
		for _, name := range []string{request.Name, "1"} {
			if _, ok, err := b.look("hung", name); err != nil || !ok {
				t.Errorf("%s: %v, %t", name, err, ok)
			}
		}
		s := b.r.reads
		if in := s.Doubtful.Len(); in != 0 {
			t.Errorf("%d clusters are in doubt", in)
		}
		if len(s.Reading)+len(s.Waiting)+len(s.Verdicts) != 0 {
			t.Errorf("something is left: %v, %v, %v", s.Reading, s.Waiting, s.Verdicts)
		}
	})
}

// TestSharedOutcome holds that a release which waited for the read of another one is told that there was no answer, for a while, and
// nothing of the other one.
func TestSharedOutcome(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	s := recordreads.New(1)
	s.Running.Now = func() time.Time { return now }
	for _, name := range []string{"soon", "late"} {
		for i := range recordreads.ReadsInDoubt {
			if err, waits := s.Begin("c", controllertest.RequestFor(fmt.Sprint(i))); err != nil || waits {
				t.Fatalf("%s: %v, %t", name, err, waits)
			}
		}
		s.Hangs("c", s.Answers["c"])
		if err, waits := s.Begin("c", controllertest.RequestFor(name)); err != nil || !waits {
			t.Fatalf("%s: %v, %t", name, err, waits)
		}
		for range recordreads.ReadsInDoubt {
			s.Answered("c", true)
		}
	}
	if err, waits := s.Begin("c", controllertest.RequestFor("soon")); !errors.Is(err, helmerr.ErrUnreachable) || waits {
		t.Errorf("one that comes back: %v, %t", err, waits)
	}
	now = now.Add(recordreads.Kept + time.Second)
	if err, waits := s.Begin("c", controllertest.RequestFor("late")); err != nil || waits {
		t.Errorf("one that comes late: %v, %t", err, waits)
	}
	if len(s.Verdicts) != 0 {
		t.Errorf("something is left: %v", s.Verdicts)
	}
}

// TestAnAnswerIsNotOvertakenByDoubt holds that a worker which gave up says nothing against a cluster that has answered meanwhile.
func TestAnAnswerIsNotOvertakenByDoubt(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*recordreads.Reads)
		doubtful  bool
	}{
		"no answer":             {func(*recordreads.Reads) {}, true},
		"an answer":             {func(s *recordreads.Reads) { s.Answered("c", false) }, false},
		"no connection":         {func(s *recordreads.Reads) { s.Answered("c", true) }, true},
		"an answer of another":  {func(s *recordreads.Reads) { _, _ = s.Begin("d", ctrl.Request{}); s.Answered("d", false) }, true},
		"the cluster is gone":   {func(s *recordreads.Reads) { s.Answered("c", false); s.Forget("c") }, false},
		"gone, and no answer":   {func(s *recordreads.Reads) { s.Forget("c"); s.Answered("c", true) }, false},
		"it is gone, and hangs": {func(s *recordreads.Reads) { s.Forget("c"); _, _ = s.Begin("c", ctrl.Request{}); s.Hangs("c", 0) }, true},
	} {
		s := recordreads.New(1)
		_, _ = s.Begin("c", ctrl.Request{})
		_, _ = s.Begin("c", ctrl.Request{})
		s.Answered("c", false)
		_, answers := s.Grace("c")
		tc.meanwhile(s)
		s.Hangs("c", answers)
		grace, _ := s.Grace("c")
		if doubtful := grace == 0; doubtful != tc.doubtful {
			t.Errorf("%s: doubtful %t", name, doubtful)
		}
	}
}

// TestFirstSightServesTwoPasses holds that what is read as a manager starts serves one more pass, unless it may be wrong by then.
func TestFirstSightServesTwoPasses(t *testing.T) {
	release := controllertest.ReleaseFor("default", "a", addonsv1.ClusterReference{Name: "well"})
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	for name, tc := range map[string]struct {
		between func(*readBench, *releasePass)
		// want tells for the passes after the first whether they need not read.
		want [2]bool
	}{
		"a moment later":        {func(*readBench, *releasePass) {}, [2]bool{true, false}},
		"too late":              {func(*readBench, *releasePass) { <-time.After(recordreads.FirstSightKept) }, [2]bool{false, false}},
		"after an action":       {func(b *readBench, _ *releasePass) { b.r.reads.Outdate(request) }, [2]bool{false, false}},
		"of what was made anew": {func(b *readBench, _ *releasePass) { b.r.reads.Part(request) }, [2]bool{false, true}},
		"as somebody else":      {func(_ *readBench, p *releasePass) { p.target.Impersonate = "x" }, [2]bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newReadBench(t)
				p := &releasePass{releaseScope: &releaseScope{release: release}, target: model.Target{Key: "well"}, desired: model.Desired{Name: "a"}}
				pass := func() (remembered bool) {
					if _, remembered = b.r.remembered(p); !remembered {
						if _, ok, err := b.look("well", "a"); !ok || err != nil {
							t.Fatal(ok, err)
						}
					}
					return remembered
				}
				if pass() {
					t.Error("it is remembered before it was read")
				}
				tc.between(b, p)
				if got := [2]bool{pass(), pass()}; got != tc.want {
					t.Errorf("remembered %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestMemorySufficesForNothingToDo(t *testing.T) {
	t.Parallel()
	for action, want := range map[model.Action]bool{
		model.ActionNone: true, model.ActionWait: false, model.ActionStall: false, model.ActionUpgrade: false, model.ActionRefuse: false,
	} {
		if got := recordreads.MemorySuffices(decide.Decision{Action: action}, model.Policy{}); got != want {
			t.Errorf("%s: %v, want %v", action, got, want)
		}
		if recordreads.MemorySuffices(decide.Decision{Action: action}, model.Policy{CorrectDrift: true}) {
			t.Errorf("%s, and drift is corrected by it", action)
		}
	}
}
