// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// clusterFixture has a new Cluster with one release in each namespace.
type clusterFixture struct {
	*fixture
	// all and single count the lists of all records, and the reads of one release.
	all, single atomic.Int64
	// namespaces is the result of each list of all records, and err its error. A list hangs if the error is
	// ErrUnreachable. panics makes it panic.
	namespaces map[string]bool
	err        error
	panics     bool
}

func newClusterFixture(t *testing.T) *clusterFixture {
	t.Helper()
	return &clusterFixture{fixture: newFixture(t), namespaces: map[string]bool{}}
}

// pass makes one pass over the release in a namespace. It reports whether the pass knows the records.
func (f *clusterFixture) pass(namespace string) (isKnown bool, err error) {
	if f.NoRecords(named("c"), namespace) != nil {
		return true, nil
	}
	_, err, isKnown = f.ObserveNew(f.Context(), controllertest.RequestFor(namespace), named("c"), "c "+namespace,
		func(context.Context) (model.Observation, error) {
			f.single.Add(1)
			return model.Observation{}, nil
		}, f.readAll)
	return isKnown, err
}

func (f *clusterFixture) readAll(ctx context.Context) (model.Observation, map[string]bool, error) {
	f.all.Add(1)
	<-time.After(time.Millisecond)
	if f.panics {
		panic("the list of all records")
	}
	if errors.Is(f.err, helmerr.ErrUnreachable) {
		<-ctx.Done()
	}
	return model.Observation{}, f.namespaces, f.err
}

// passes makes passes over the releases of some namespaces at the same time, and later over those in the queue. It
// returns the result of the last pass over each release that knows its records.
func (f *clusterFixture) passes(namespaces ...string) map[string]error {
	f.Helper()
	var mu sync.Mutex
	results := map[string]error{}
	for pending := namespaces; len(pending) > 0; {
		var group sync.WaitGroup
		for _, namespace := range pending {
			group.Go(func() {
				if isKnown, err := f.pass(namespace); isKnown {
					mu.Lock()
					defer mu.Unlock()
					results[namespace] = err
				}
			})
		}
		group.Wait()
		// A list that hangs ends then.
		<-time.After(ObserveTimeout)
		synctest.Wait()
		pending = nil
		for f.queue.Len() > 0 {
			request, _ := f.queue.Get()
			f.queue.Done(request)
			pending = append(pending, request.Name)
		}
	}
	return results
}

// TestOneListServesNewReleases checks that one list of all records serves the releases of a new Cluster whose passes
// come at the same time, and that each release knows its records in the end.
func TestOneListServesNewReleases(t *testing.T) {
	other := errors.New("other")
	for name, tc := range map[string]struct {
		change      func(*clusterFixture)
		all, single int64
		// want is the result of some releases.
		want   error
		failed int
	}{
		"no records": {change: func(*clusterFixture) {}, all: 1},
		"records in their namespaces": {change: func(f *clusterFixture) {
			f.namespaces = map[string]bool{"a": true, "b": true, "c": true}
		}, all: 1, single: 2},
		"records in other namespaces": {change: func(f *clusterFixture) { f.namespaces["d"] = true }, all: 1},
		"cannot be listed":            {change: func(f *clusterFixture) { f.namespaces = nil }, all: 1, single: 2},
		"fails": {change: func(f *clusterFixture) { f.err = other }, all: 1, single: 2, want: other,
			failed: 1},
		"hangs": {change: func(f *clusterFixture) { f.err = helmerr.ErrUnreachable }, all: 1,
			want: helmerr.ErrUnreachable, failed: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newClusterFixture(t)
				tc.change(f)
				results := f.passes("a", "b", "c")
				if all, single := f.all.Load(), f.single.Load(); all != tc.all || single != tc.single {
					t.Errorf("%d lists of all records and %d reads of one release, want %d and %d", all, single, tc.all,
						tc.single)
				}
				failed := 0
				for _, err := range results {
					if err != nil && errors.Is(err, tc.want) {
						failed++
					} else if err != nil {
						t.Error(err)
					}
				}
				if len(results) != 3 || failed != tc.failed {
					t.Errorf("the results are %v, want %d times %v", results, tc.failed, tc.want)
				}
				<-time.After(unlistedKept)
				synctest.Wait()
				if len(f.inFlight)+len(f.waiting)+f.tasks.Len()+len(f.clusters) != 0 {
					t.Errorf("left: %v, %v, %d tasks, %v", f.inFlight, f.waiting, f.tasks.Len(), f.clusters)
				}
			})
		})
	}
}

// TestPanicOfListBlocksNoRelease checks that the next release reads its records after a list that panicked.
func TestPanicOfListBlocksNoRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newClusterFixture(t)
		f.panics = true
		if results := f.passes("a"); results["a"] == nil {
			t.Errorf("the first release: %v", results)
		}
		if results := f.passes("b"); len(results) != 1 || results["b"] != nil {
			t.Errorf("the second release: %v", results)
		}
		if all, single := f.all.Load(), f.single.Load(); all != 1 || single != 1 {
			t.Errorf("%d lists of all records and %d reads of one release", all, single)
		}
	})
}

// TestListThatNeverRanBlocksNoRelease checks that a release lists all records if a list that should have begun did not
// end in time.
func TestListThatNeverRanBlocksNoRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newClusterFixture(t)
		if _, ok := f.beginAll(named("c"), controllertest.RequestFor("a"), "c a", false); !ok {
			t.Fatal("the first list does not begin")
		}
		if isKnown, err := f.pass("b"); isKnown || err != nil {
			t.Errorf("during the list: %t, %v", isKnown, err)
		}
		<-time.After(ObserveTimeout)
		if isKnown, err := f.pass("b"); !isKnown || err != nil || f.all.Load() != 1 {
			t.Errorf("after the timeout: %t, %v, %d lists", isKnown, err, f.all.Load())
		}
	})
}

// TestListOfClusterExpires checks how long a list of all records counts.
func TestListOfClusterExpires(t *testing.T) {
	for name, tc := range map[string]struct {
		unlisted bool
		between  func(*clusterFixture)
		// all and single are the reads of the release of another namespace.
		all, single int64
	}{
		"a moment later":   {between: func(*clusterFixture) {}},
		"too late":         {between: func(*clusterFixture) { <-time.After(clusterKept) }, all: 1},
		"cannot be listed": {unlisted: true, between: func(*clusterFixture) { <-time.After(clusterKept) }, single: 1},
		"could not be listed long ago": {unlisted: true, between: func(*clusterFixture) { <-time.After(unlistedKept) },
			all: 1},
		"the Cluster was deleted": {between: func(f *clusterFixture) { f.Forget(named("c")) }, all: 1},
		"a read timed out": {between: func(f *clusterFixture) { f.judge.ReadTimedOut(named("c"), time.Now()) },
			single: 1},
		"a probe failed": {between: func(f *clusterFixture) { f.Reads.links = failedProbe{f.judge} }, single: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newClusterFixture(t)
				if tc.unlisted {
					f.namespaces = nil
				}
				if results := f.passes("a"); len(results) != 1 || f.all.Load() != 1 {
					t.Fatalf("the first release: %v, %d lists", results, f.all.Load())
				}
				tc.between(f)
				synctest.Wait()
				results := f.passes("b")
				if all, single := f.all.Load()-1, f.single.Load(); all != tc.all || single != tc.single {
					t.Errorf("%d lists of all records and %d reads of one release, want %d and %d", all, single, tc.all,
						tc.single)
				}
				if err, ok := results["b"]; !ok || err != nil {
					t.Errorf("the second release: %v, read: %t", err, ok)
				}
			})
		})
	}
}

// TestForgottenListHasNoResult checks that a list that began before the Cluster was deleted does not count for the new
// Cluster with the same name.
func TestForgottenListHasNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newClusterFixture(t)
		go func() { _, _ = f.pass("a") }()
		synctest.Wait()
		f.Forget(named("c"))
		<-time.After(time.Second)
		synctest.Wait()
		if result := f.NoRecords(named("c"), "b"); f.all.Load() != 1 || result != nil {
			t.Errorf("%d lists; the list counts for another Cluster: %+v", f.all.Load(), result)
		}
	})
}

// failedProbe are Links whose last probe of each Cluster failed.
type failedProbe struct{ Links }

func (l failedProbe) State(cluster client.ObjectKey) clusterlink.State {
	state := l.Links.State(cluster)
	state.Failures = 1
	return state
}
