// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
)

// sharedFixture has some releases in one namespace of a cluster. Their records are read together.
type sharedFixture struct {
	*fixture
	kept map[string]*Kept
	// requests is the number of requests, of one release or of all. hangs makes them fail after ObserveTimeout.
	requests int
	hangs    bool
	// missing is a release that the response lacks.
	missing string
}

func newSharedFixture(t *testing.T, releases int) *sharedFixture {
	t.Helper()
	f := &sharedFixture{fixture: newFixture(t), kept: map[string]*Kept{}}
	for i := range releases {
		f.kept[fmt.Sprint(i)] = &Kept{}
	}
	return f
}

func sharedKey(name string) string { return "c\nuid\nuser\napps\n" + name + "\nuid of " + name }

func siblingOf(name string, kept *Kept) Sibling {
	return Sibling{Request: controllertest.RequestFor(name), Name: name, Key: sharedKey(name),
		Kept: func() *Kept { return kept }}
}

// pass makes one pass over a release. It reports whether the pass has the records, and whether an earlier read had
// them.
func (f *sharedFixture) pass(name string) (done, isRemembered bool, err error) {
	own, kept := siblingOf(name, f.kept[name]), f.kept[name]
	if observation, ok := kept.Take(own.Key, noRelease); ok {
		return true, true, wantRevisionOf(name, observation.Observation)
	}
	var siblings []Sibling
	for other, known := range f.kept {
		if other != name {
			siblings = append(siblings, siblingOf(other, known))
		}
	}
	observation, err, done := f.ObserveShared(f.Context(), named("c"), own, siblings, f.readAll)
	if !done || err != nil {
		return done, false, err
	}
	kept.KeepFirst(own.Key, observation)
	return true, false, wantRevisionOf(name, observation)
}

// readAll reads the records of all releases. The record of release n has the Helm revision n + 1.
func (f *sharedFixture) readAll(ctx context.Context) (map[string]model.Observation, error) {
	f.requests++
	if f.hangs {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", helmerr.ErrUnreachable, ctx.Err())
	}
	<-time.After(50 * time.Millisecond)
	all := map[string]model.Observation{}
	for name := range f.kept {
		if name != f.missing {
			all[name] = model.Observation{Records: []model.Record{{Revision: revisionOf(name)}}}
		}
	}
	return all, nil
}

func revisionOf(name string) int {
	var n int
	_, _ = fmt.Sscan(name, &n)
	return n + 1
}

func wantRevisionOf(name string, observation model.Observation) error {
	if newest, ok := observation.Newest(); !ok || newest.Revision != revisionOf(name) {
		return fmt.Errorf("release %s got the records %+v", name, observation.Records)
	}
	return nil
}

// passes makes passes over the releases in the queue until there are none, and returns the releases with records.
func (f *sharedFixture) passes() map[string]bool {
	f.Helper()
	found := map[string]bool{}
	for synctest.Wait(); f.queue.Len() > 0; synctest.Wait() {
		request, _ := f.queue.Get()
		f.queue.Done(request)
		done, _, err := f.pass(request.Name)
		if err != nil {
			f.Errorf("release %s: %v", request.Name, err)
		}
		found[request.Name] = found[request.Name] || done
	}
	return found
}

func TestOneRequestReadsAllReleasesOfNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		missing  string
		requests int
	}{
		"all":           {requests: 1},
		"one is absent": {missing: "3", requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const releases = 5
				f := newSharedFixture(t, releases)
				f.missing = tc.missing
				began := time.Now()
				for i := range releases {
					if done, _, err := f.pass(fmt.Sprint(i)); done || err != nil {
						t.Fatalf("release %d: %t, %v", i, done, err)
					}
				}
				if held := time.Since(began); held != 0 {
					t.Errorf("the passes hold their workers for %s", held)
				}
				<-time.After(50 * time.Millisecond)
				synctest.Wait()
				f.missing = ""
				found := f.passes()
				<-time.After(50 * time.Millisecond)
				for name := range f.passes() {
					found[name] = true
				}
				if f.requests != tc.requests || len(found) != releases {
					t.Errorf("%d requests for %d releases, want %d for %d", f.requests, len(found), tc.requests, releases)
				}
				for name, done := range found {
					if !done {
						t.Errorf("release %s has no records", name)
					}
				}
			})
		})
	}
}

func TestSharedResultServesTwoPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSharedFixture(t, 3)
		for _, name := range []string{"0", "1"} {
			_, _, _ = f.pass(name)
		}
		f.kept["2"].Outdate()
		<-time.After(50 * time.Millisecond)
		if found := f.passes(); !found["0"] || !found["1"] {
			t.Fatalf("releases with records: %v", found)
		}
		// The second pass follows when the objects are known.
		for _, name := range []string{"0", "1"} {
			if _, isRemembered, err := f.pass(name); err != nil || !isRemembered {
				t.Errorf("second pass over release %s: %t, %v", name, isRemembered, err)
			}
			if _, ok := f.kept[name].Take(sharedKey(name), noRelease); ok {
				t.Errorf("release %s uses the result in a third pass", name)
			}
		}
		if _, ok := f.kept["2"].Take(sharedKey("2"), noRelease); ok {
			t.Error("a release uses a read that began before a change of its records")
		}
		if f.requests != 1 {
			t.Errorf("%d requests", f.requests)
		}
	})
}

// TestReleasesOfClusterFollowEachOther checks that the end of a shared read enqueues all releases of the cluster before
// the releases of other clusters, and each of them once. Otherwise their watches would begin at different times, and
// each late release would repeat a list.
func TestReleasesOfClusterFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const releases, others = 5, 50
		f := newSharedFixture(t, releases)
		waiting := priorityqueue.New[ctrl.Request]("")
		defer waiting.ShutDown()
		if err := f.Source().Start(t.Context(), waiting); err != nil {
			t.Fatal(err)
		}
		_, _, _ = f.pass("0")
		_, _, _ = f.pass("1") // It waits for the read.
		for i := range others {
			enqueue(waiting, fmt.Sprint("other-", i))
		}
		for i := 2; i < releases; i++ {
			enqueue(waiting, fmt.Sprint(i))
		}
		<-time.After(50 * time.Millisecond)
		synctest.Wait()
		for range releases {
			request, priority, _ := waiting.GetWithPriority()
			if priority != async.PriorityOfBegun {
				t.Errorf("release %s has the priority %d", request.Name, priority)
			}
			if done, _, err := f.pass(request.Name); !done || err != nil {
				t.Errorf("release %s: %t, %v", request.Name, done, err)
			}
			waiting.Done(request)
		}
		if f.requests != 1 || waiting.Len() != others {
			t.Errorf("%d requests, and %d others in the queue", f.requests, waiting.Len())
		}
	})
}

// enqueue enqueues a release that is only checked.
func enqueue(waiting priorityqueue.PriorityQueue[ctrl.Request], name string) {
	waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(queue.PriorityOfRest)}, controllertest.RequestFor(name))
}

// TestSiblingsAreNotEnqueuedAfterForget checks that no release waits for a read that was forgotten.
func TestSiblingsAreNotEnqueuedAfterForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSharedFixture(t, 2)
		_, _, _ = f.pass("0")
		f.Forget(named("c"))
		<-time.After(50 * time.Millisecond)
		synctest.Wait()
		if len(f.waiting) != 0 || f.queue.Len() != 1 {
			t.Errorf("%d clusters have waiting releases, %d releases are in the queue", len(f.waiting), f.queue.Len())
		}
	})
}

// TestForgottenSharedReadWakesWaiters checks that a release that waits for a shared read is enqueued at the end of this
// read, although the cluster was forgotten during the read.
func TestForgottenSharedReadWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSharedFixture(t, 2)
		_, _, _ = f.pass("0")
		f.Forget(named("c"))
		if done, _, err := f.pass("1"); done || err != nil {
			t.Fatalf("the other release does not wait: %t, %v", done, err)
		}
		<-time.After(50 * time.Millisecond)
		if found := f.passes(); !found["0"] || !found["1"] || f.requests != 1 {
			t.Errorf("releases with records after %d requests: %v", f.requests, found)
		}
	})
}

// deliveringLinks are Links for a pass during which a result of another read is delivered to its release.
type deliveringLinks struct {
	Links
	deliver func()
}

func (l deliveringLinks) State(cluster client.ObjectKey) clusterlink.State {
	l.deliver()
	return l.Links.State(cluster)
}

// TestDeliveredResultBeginsNoRead checks a release that gets the result of another read at the moment at which its own
// read should begin. The pass uses this result, and nothing blocks later reads of the namespace and the Cluster.
func TestDeliveredResultBeginsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSharedFixture(t, 2)
		f.Reads.links = deliveringLinks{f.judge, func() {
			f.tasks.Deliver(sharedKey("0"), controllertest.RequestFor("0"), model.Observation{}, errNoAnswer)
		}}
		if _, _, err := f.pass("0"); !errors.Is(err, errNoAnswer) {
			t.Errorf("the pass has the error %v", err)
		}
		if len(f.shared)+len(f.inFlight)+len(f.waiting)+f.tasks.Len() != 0 {
			t.Errorf("left: %v, %v, %v, %d results", f.shared, f.inFlight, f.waiting, f.tasks.Len())
		}
		f.Reads.links = f.judge
		_, _, _ = f.pass("1")
		<-time.After(50 * time.Millisecond)
		if found := f.passes(); !found["1"] {
			t.Error("the next release of the namespace has no records")
		}
	})
}

func TestFailedSharedReadIsNotRepeatedBySiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSharedFixture(t, 4)
		f.hangs = true
		for name := range f.kept {
			_, _, _ = f.pass(name)
		}
		<-time.After(ObserveTimeout)
		for range f.kept {
			request, _ := f.queue.Get()
			f.queue.Done(request)
			if done, _, err := f.pass(request.Name); !done || !errors.Is(err, helmerr.ErrUnreachable) {
				t.Errorf("release %s: %t, %v", request.Name, done, err)
			}
		}
		if f.requests != 1 || f.tasks.Len() != 0 || len(f.shared) != 0 {
			t.Errorf("%d requests, %d results and %d reads are left", f.requests, f.tasks.Len(), len(f.shared))
		}
	})
}

func TestGroupHasOneClusterUserAndNamespace(t *testing.T) {
	t.Parallel()
	own := groupOf(sharedKey("a"))
	if other := groupOf(sharedKey("b")); other != own {
		t.Errorf("two releases of a namespace have the groups %q and %q", own, other)
	}
	for _, other := range []string{"d\nuid\nuser\napps\nb\nu", "c\nuid2\nuser\napps\nb\nu", "c\nuid\n\napps\nb\nu",
		"c\nuid\nuser\nother\nb\nu"} {
		if groupOf(other) == own {
			t.Errorf("%q has the same group", other)
		}
	}
}
