// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// listedPlan returns a plan that rarely lists two ConfigMaps and a ServiceAccount, in addition to the watched objects.
func listedPlan(t *testing.T, every time.Duration, refs ...inventory.Ref) Plan {
	t.Helper()
	return Plan{Objects: refs, Checker: checker(t), ListEvery: every}
}

// listed returns the list requests for kinds that are not watched.
func (b *bench) listed() []apiserver.Request {
	b.t.Helper()
	return append(b.sent(apiserver.WithVerb("list"), apiserver.OnResource("configmaps")),
		b.sent(apiserver.WithVerb("list"), apiserver.OnResource("serviceaccounts"))...)
}

func (b *bench) deleteConfigMap(name string) {
	b.t.Helper()
	if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) createServiceAccount(name string) inventory.Ref {
	b.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: helmLabels()}}
	if _, err := b.kube.CoreV1().ServiceAccounts(b.namespace).Create(b.t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	return inventory.Ref{Version: "v1", Kind: "ServiceAccount", Namespace: b.namespace, Name: name}
}

// withLists runs a test that expects a certain number of lists. On a busy machine, the test may be too late: more lists
// run than it expects. Then it runs again with a longer interval. The first list is half an interval after the start,
// or later, and the second list a whole interval after the first one.
func withLists(t *testing.T, run func(every time.Duration) (inTime bool, err error)) {
	t.Helper()
	for every := 8 * time.Second; ; every *= 3 {
		inTime, err := run(every)
		if err == nil {
			return
		}
		if inTime || every > time.Minute {
			t.Fatal(err)
		}
		t.Logf("too late for lists every %s: %v", every, err)
	}
}

// TestListFindsDeletedObjects checks that the deletion of an object without a health rule is found. There is one list
// for each kind and interval that all releases of a cluster share, and no earlier request.
func TestListFindsDeletedObjects(t *testing.T) {
	t.Parallel()
	withLists(t, func(every time.Duration) (inTime bool, err error) { return findDeleted(newBench(t), every) })
}

func findDeleted(b *bench, every time.Duration) (inTime bool, err error) {
	defer b.stop()
	deployment, kept, lost, account := b.createDeployment("d", helmLabels()), b.createConfigMap("kept"),
		b.createConfigMap("lost"), b.createServiceAccount("a")
	one, two := key("one"), key("two")
	began := time.Now()
	b.watcher.Follow(one, b.conn, listedPlan(b.t, every, deployment, lost, account))
	b.watcher.Follow(two, b.conn, listedPlan(b.t, every, kept))
	before := b.synced(one).Objects[lost]
	asked := b.settled(one)
	early := b.listed()
	b.deleteConfigMap("lost")
	inTime = time.Since(began) < every/2
	b.becomes(one, lost, "gone", func(s State) bool { return !s.Exists && s.Health == health.NotFound })
	b.becomes(two, kept, "known", func(s State) bool { return s.Known && s.Exists })
	b.becomes(one, account, "known", func(s State) bool { return s.Known && s.Exists })
	eventually(b.t, "a request for the release that lacks an object", func() bool { return b.asked(one) > asked })
	lists, reads, others := b.listed(), b.sent(apiserver.WithVerb("get")), b.asked(two)
	b.createConfigMap("lost")
	b.watcher.Installed(one)
	after := b.look(one).Objects[lost]
	inTime = inTime && time.Since(began) < every/2+every
	switch {
	case !before.Exists || before.Known:
		err = fmt.Errorf("what was not listed yet counts as existing, got %+v", before)
	case len(early) > 0:
		err = fmt.Errorf("listed at once: %+v", early)
	case others > 0:
		err = fmt.Errorf("a release whose objects exist is asked for %d times", others)
	case len(lists) != 2 || len(reads) != 1:
		err = fmt.Errorf("want one list for each kind, and one read of the lost object, got %+v and %+v", lists, reads)
	case !after.Exists || after.Known:
		err = fmt.Errorf("what was just installed exists, got %+v", after)
	}
	return inTime, err
}

// TestListsOnRequest checks that a release is listed at once on request, and is reconciled when all its objects are
// listed.
func TestListsOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.createConfigMap("c")
	unlabelled := b.createConfigMap("unlabelled")
	b.patchConfigMap("unlabelled", `{"metadata":{"labels":null}}`)
	release := key("r")
	b.watcher.Follow(release, b.conn, listedPlan(t, time.Hour, config, unlabelled))
	b.watcher.List(release)
	eventually(t, "a request", func() bool { return b.asked(release) == 1 })
	for ref, state := range b.look(release).Objects {
		if !state.Known || !state.Exists {
			t.Errorf("%s is %+v", ref, state)
		}
	}
	b.deleteConfigMap("c")
	b.watcher.List(release)
	b.becomes(release, config, "gone", func(s State) bool { return s.Known && !s.Exists })
	b.becomes(release, unlabelled, "read by itself", func(s State) bool { return s.Known && s.Exists })
	asked := b.settled(release)
	// The connection changes right after the request.
	b.watcher.List(release)
	b.watcher.Disconnect(b.conn.Cluster)
	b.watcher.Follow(release, b.conn, listedPlan(t, time.Hour, config, unlabelled))
	b.becomes(release, config, "gone", func(s State) bool { return s.Known && !s.Exists })
	eventually(t, "a request after the list", func() bool { return b.asked(release) > asked })
	b.settled(release)
	// A restarted process that knows of missing objects does not wait.
	b.stop()
	b.start()
	plan := listedPlan(t, time.Hour, config, unlabelled)
	plan.ListSoon = true
	b.watcher.Follow(release, b.conn, plan)
	b.becomes(release, config, "gone", func(s State) bool { return s.Known && !s.Exists })
}

// TestListOnRequestIsNew checks that a list that began before a request does not count for the request: the object may
// have been deleted in between.
func TestListOnRequestIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lists, gone atomic.Int32
		answers := make(chan struct{})
		watcher := startWatcher(t)
		watcher.Follow(key("r"), connectionTo(func(r *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/c"):
				return answer(r, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
					`"reason":"NotFound","code":404,"details":{"name":"c"}}`), nil
			case gone.Load() > 0:
				lists.Add(1)
				return answer(r, http.StatusOK, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",`+
					`"metadata":{"resourceVersion":"2"},"items":[]}`), nil
			default:
				lists.Add(1)
				<-answers
				return answer(r, http.StatusOK, listOf(`"continue":""`)), nil
			}
		}), Plan{Objects: []inventory.Ref{hostileConfig}, ListEvery: time.Hour})
		watcher.List(key("r"))
		<-time.After(2 * rejoinTime)
		gone.Store(1)
		watcher.List(key("r"))
		answers <- struct{}{}
		<-time.After(2 * rejoinTime)
		synctest.Wait()
		snapshot, _ := watcher.Look(key("r"))
		if state := snapshot.Objects[hostileConfig]; lists.Load() != 2 || !state.Known || state.Exists {
			t.Errorf("after %d lists, the object is %+v", lists.Load(), state)
		}
	})
}

// lateDiscovery is how long lateMapper needs.
const lateDiscovery = 10 * time.Second

// lateMapper needs some time to discover a kind.
type lateMapper struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper.
func (lateMapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	<-time.After(lateDiscovery)
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Group: kind.Group, Version: "v1", Resource: "widgets"},
		Scope: meta.RESTScopeNamespace}, nil
}

// TestNeededListsAreNotLate checks that a release is listed soon if its connection changes right after the request for
// the list, and if the kind of its objects is discovered late.
func TestNeededListsAreNotLate(t *testing.T) {
	t.Parallel()
	widget := inventory.Ref{Group: "example.com", Version: "v1", Kind: "Widget", Namespace: "ns", Name: "c"}
	for name, tc := range map[string]struct {
		ref inventory.Ref
		// isSoon is true if the plan needs the list, and false if there is a request.
		isSoon bool
	}{
		"a request":                         {ref: hostileConfig},
		"a request, with a late discovery":  {ref: widget},
		"missing objects":                   {ref: hostileConfig, isSoon: true},
		"missing objects, discovered later": {ref: widget, isSoon: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				watcher := startWatcher(t)
				conn := connectionTo(func(r *http.Request) (*http.Response, error) {
					return answer(r, http.StatusOK, listOf(`"continue":""`)), nil
				})
				conn.Mapper = lateMapper{}
				plan := Plan{Objects: []inventory.Ref{tc.ref}, ListEvery: time.Hour, ListSoon: tc.isSoon}
				watcher.Follow(key("r"), conn, plan)
				if !tc.isSoon {
					watcher.List(key("r"))
				}
				watcher.Disconnect("")
				watcher.Follow(key("r"), conn, plan)
				<-time.After(lateDiscovery + 2*rejoinTime)
				synctest.Wait()
				if snapshot, _ := watcher.Look(key("r")); !snapshot.Objects[tc.ref].Known {
					t.Errorf("the object is %+v", snapshot.Objects[tc.ref])
				}
			})
		})
	}
}

// TestListWithoutPermissions checks that a tenant's objects are listed in its namespaces, and that objects that may be
// neither listed nor read count as existing, and are marked.
func TestListWithoutPermissions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config, account := b.createConfigMap("c"), b.createServiceAccount("a")
	permitted := b.grant("lister",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "get"}})
	release := key("r")
	b.watcher.Follow(release, b.connection("cluster", permitted), listedPlan(t, time.Hour, config, account))
	b.deleteConfigMap("c")
	if err := b.kube.CoreV1().ServiceAccounts(b.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.watcher.List(release)
	eventually(t, "a request", func() bool { return b.asked(release) > 0 })
	b.becomes(release, config, "gone", func(s State) bool { return s.Known && !s.Exists })
	b.becomes(release, account, "existing", func(s State) bool { return s.Known && s.Exists })
	b.becomes(release, account, "denied", func(s State) bool { return s.Denied })
	if snapshot := b.look(release); snapshot.Err != nil || snapshot.Objects[config].Denied {
		t.Errorf("nothing stands in the way of the release, got %+v", snapshot)
	}
	// An identity with the permission to get objects notices that they are deleted.
	getter := b.grant("getter", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}})
	b.watcher.Follow(release, b.connection("cluster", getter), listedPlan(t, time.Hour, config, account))
	if state := b.look(release).Objects[account]; state.Denied || !state.Exists {
		t.Errorf("with other rights, the object is %+v", state)
	}
	b.watcher.List(release)
	b.becomes(release, account, "gone", func(s State) bool { return s.Known && !s.Exists && !s.Denied })
}

// TestReadsObjectsThatMayNotBeListed checks that the deletion of an object is found if its kind may not be listed, but
// the object may be read. Each object is read once in each interval.
func TestReadsObjectsThatMayNotBeListed(t *testing.T) {
	t.Parallel()
	withLists(t, func(every time.Duration) (inTime bool, err error) { return readEach(newBench(t), every) })
}

func readEach(b *bench, every time.Duration) (inTime bool, err error) {
	defer b.stop()
	kept, lost := b.createConfigMap("kept"), b.createConfigMap("lost")
	getter := b.connection("cluster", b.grant("reader", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}))
	release := key("r")
	began := time.Now()
	b.watcher.Follow(release, getter, listedPlan(b.t, every, kept, lost))
	isThere := func(s State) bool { return s.Known && s.Exists && !s.Denied }
	b.becomes(release, kept, "known", isThere)
	b.becomes(release, lost, "known", isThere)
	reads := b.sent(apiserver.WithVerb("get"))
	inTime = time.Since(began) < every/2+every
	b.deleteConfigMap("lost")
	b.status(release, lost, health.NotFound)
	eventually(b.t, "a request", func() bool { return b.asked(release) > 0 })
	if state := b.look(release).Objects[kept]; !state.Exists {
		return true, fmt.Errorf("the other object is %+v", state)
	}
	if len(reads) > 3 {
		return inTime, fmt.Errorf("two objects need %d reads", len(reads))
	}
	return inTime, nil
}

// TestFailedListsAreRare checks that a list that fails is repeated only after a pause, also on request, and that
// further lists follow their interval when a list has succeeded. The interval is much longer than the pause. A lasting
// error is reported, and so is its end.
func TestFailedListsAreRare(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{
		"an internal error": http.StatusInternalServerError, "an unavailable server": http.StatusServiceUnavailable,
		"too many requests": http.StatusTooManyRequests, "a refused connection": 0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const every = 10 * time.Minute
				var lists atomic.Int32
				var isWell atomic.Bool
				watcher := startWatcher(t)
				watcher.Follow(key("r"), connectionTo(func(r *http.Request) (*http.Response, error) {
					switch {
					case lists.Add(1) > 1000:
						// In a loop without a pause, the time of the bubble would stand still.
						<-r.Context().Done()
						return nil, r.Context().Err()
					case isWell.Load():
						return answer(r, http.StatusOK, listOf(`"continue":""`)), nil
					case status == 0:
						return nil, syscall.ECONNREFUSED
					default:
						return answer(r, status, `{"kind":"Status","apiVersion":"v1","status":"Failure"}`), nil
					}
				}), Plan{Objects: []inventory.Ref{hostileConfig}, ListEvery: every})
				<-time.After(time.Hour)
				if got := lists.Swap(0); got > int32(time.Hour/listAgain) || got < int32((time.Hour-every)/listAgain) {
					t.Errorf("%d lists in an hour", got)
				}
				requested := func() int {
					watcher.notifier.mu.Lock()
					defer watcher.notifier.mu.Unlock()
					defer func() { watcher.notifier.changes = nil }()
					return len(watcher.notifier.changes)
				}
				failing, _ := watcher.Look(key("r"))
				if state := failing.Objects[hostileConfig]; state.WatchError == nil || !state.Exists || requested() != 1 {
					t.Errorf("the release is not requested because of the error, or the object is %+v", state)
				}
				for range 60 {
					watcher.List(key("r"))
					<-time.After(time.Second)
				}
				if got := lists.Load(); got > 2 {
					t.Errorf("%d lists in a minute with many requests", got)
				}
				isWell.Store(true)
				<-time.After(listAgain)
				snapshot, _ := watcher.Look(key("r"))
				if state := snapshot.Objects[hostileConfig]; !state.Known || state.WatchError != nil || requested() != 1 {
					t.Errorf("the release is not requested because of the end of the error, or the object is %+v", state)
				}
				lists.Store(0)
				<-time.After(time.Hour)
				if got := lists.Load(); got < 6 || got > 8 {
					t.Errorf("%d lists in an hour when all is well", got)
				}
			})
		})
	}
}

// TestListIsScheduledAtEndOfLists has a release with a listed object that joins when no list is due any more, and the
// goroutine that lists has not ended yet. The object must be listed in time.
func TestListIsScheduledAtEndOfLists(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]time.Duration{"no other list": 0, "a later list": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var lists atomic.Int32
				watcher := startWatcher(t)
				conn := connectionTo(func(r *http.Request) (*http.Response, error) {
					lists.Add(1)
					return answer(r, http.StatusOK, listOf(`"continue":""`)), nil
				})
				follow := func(name string, every time.Duration) {
					watcher.Follow(key(name), conn, Plan{Objects: []inventory.Ref{hostileConfig}, ListEvery: every})
					synctest.Wait()
				}
				follow("one", 10*time.Hour)
				l := watcher.links[""][""]
				watcher.mu.Lock()
				l.lists.stop()
				l.lists.running = true
				watcher.mu.Unlock()
				follow("two", time.Minute)
				l.endLists(next)
				<-time.After(time.Minute)
				synctest.Wait()
				if lists.Load() == 0 {
					t.Error("the object is not listed")
				}
			})
		})
	}
}

// TestReadsInTurn checks that many objects are not read at the same time, and that a read is never delayed.
func TestReadsInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads, r := newPendingReads(), &release{objects: make([]object, 100)}
		of := func(i int) target { return target{release: r, index: i} }
		until := func(of target) time.Duration {
			due, ok := reads.objects.due(of)
			if !ok {
				t.Errorf("no read of object %d is due", of.index)
			}
			return time.Until(due)
		}
		many := len(r.objects)
		for i := range many / 2 {
			reads.confirm(of(i), absenceInterval)
		}
		for range 2 {
			for i := range many {
				reads.readInTurn(of(i))
			}
		}
		dues := map[time.Duration]bool{}
		for i := range many {
			dues[until(of(i))] = true
		}
		if last := until(of(many - 1)); len(dues) != many || last > time.Duration(many)*turnTime {
			t.Errorf("%d reads have %d times, the last is in %s", many, len(dues), last)
		}
		// Reads that were dropped take no time.
		reads.forget(r)
		other := target{release: &release{}}
		reads.readInTurn(other)
		if due := until(other); due > turnTime {
			t.Errorf("the first read of another release is in %s", due)
		}
	})
}
