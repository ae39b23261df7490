// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// eventServer is an API server whose lists and events the test determines. Single objects do not exist.
type eventServer struct {
	mu sync.Mutex
	// lists are the next lists. The last one repeats.
	lists []eventList
	// watched are the paths of the watches, and reads is the number of reads of single objects.
	watched []string
	reads   int
	// open is the watch that began last.
	open io.Writer
}

// eventList is the beginning of a watch.
type eventList struct {
	events string
	// breaks is true if the connection breaks after the events.
	breaks bool
}

// respond answers a request.
func (s *eventServer) respond(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Get("watch") == "" {
		s.reads++
		return answer(r, http.StatusNotFound, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure",`+
			`"reason":"NotFound","code":404,"details":{"name":%q}}`, r.URL.Path)), nil
	}
	s.watched = append(s.watched, r.URL.Path)
	next := s.lists[0]
	if len(s.lists) > 1 {
		s.lists = s.lists[1:]
	}
	response := answer(r, http.StatusOK, "")
	body, events := io.Pipe()
	response.Body, s.open = body, events
	context.AfterFunc(r.Context(), func() { _ = events.Close() })
	go func() {
		_, _ = io.WriteString(events, next.events)
		if next.breaks {
			_ = events.CloseWithError(io.ErrUnexpectedEOF)
		}
	}()
	return response, nil
}

// send sends events in the open watch, and waits until they are processed.
func (s *eventServer) send(events string) {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	_, _ = io.WriteString(open, events)
	synctest.Wait()
}

// ofHelmRelease returns the part of an object's metadata that names its Helm release.
func ofHelmRelease(name string) string {
	return fmt.Sprintf(`"uid":"u","annotations":{%q:"ns",%q:%q}`, inventory.HelmReleaseNamespace,
		inventory.HelmReleaseName, name)
}

// expectBench has a release one, which follows hostileConfig. An action on release two creates newConfig.
type expectBench struct {
	*testing.T
	server  *eventServer
	watcher *Watcher
	conn    Connection
}

var (
	newConfig  = inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "new"}
	ofOne      = metadataEvent("ADDED", "c", "1", `"uid":"u"`)
	created    = metadataEvent("ADDED", "new", "3", ofHelmRelease("two"))
	expiration = `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}`
)

func newExpectBench(t *testing.T, lists ...eventList) *expectBench {
	t.Helper()
	b := &expectBench{T: t, server: &eventServer{lists: lists}, watcher: startWatcher(t)}
	b.conn = connectionTo(b.server.respond)
	b.follow("one", hostileConfig)
	<-time.After(2 * settleTime)
	synctest.Wait()
	return b
}

func (b *expectBench) follow(release string, ref inventory.Ref) {
	b.watcher.Follow(key(release), b.conn, Plan{Objects: []inventory.Ref{ref}, Drift: true})
	synctest.Wait()
}

func (b *expectBench) expect() (end func()) {
	return b.watcher.Expect(key("two"), b.conn, Expectation{Namespace: "ns", Name: "two", Drift: true})
}

// replace completes a list without objects. The pause before the list of an expired watch is random: it can be shorter
// than rejoinTime.
func (b *expectBench) replace() {
	s := slices.Collect(maps.Values(b.watcher.links[""][""].streams))[0]
	(&feed{stream: s, run: s.run, latest: listID{run: s.run, number: s.list.number + 1}, received: newReceived()}).
		replace("9")
	synctest.Wait()
}

// check checks whether release two is known at once, and how. It must be known after the time for which a stream waits
// before it restarts. It also checks the number of watches, which do not end within this time.
func (b *expectBench) check(isKnown bool, watches int, version int64) {
	b.Helper()
	if snapshot, _ := b.watcher.Look(key("two")); snapshot.Synced != isKnown {
		b.Errorf("known at once: %t", snapshot.Synced)
	}
	<-time.After(rejoinTime + time.Millisecond)
	synctest.Wait()
	snapshot, _ := b.watcher.Look(key("two"))
	if state := snapshot.Objects[newConfig]; !snapshot.Synced || state.Exists != (version > 0) ||
		state.ResourceVersion != version {
		b.Errorf("got %+v", snapshot)
	}
	<-time.After(10 * time.Minute)
	synctest.Wait()
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if len(b.server.watched) != watches {
		b.Errorf("%d watches, want %d", len(b.server.watched), watches)
	}
}

// TestExpectedObjectsNeedNoList checks when a release that joins a stream is known without another list of the stream.
// In the other cases, the stream restarts after a second.
func TestExpectedObjectsNeedNoList(t *testing.T) {
	t.Parallel()
	all := eventList{events: ofOne + endOfList}
	withNew := eventList{events: ofOne + created + endOfList}
	for name, tc := range map[string]struct {
		lists []eventList
		steps func(b *expectBench)
		// known is true if release two is known at once.
		known   bool
		watches int
		// version is the version of newConfig; 0 if it does not exist.
		version int64
	}{
		"the event is before Follow": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created)
			b.follow("two", newConfig)
		}, true, 1, 3},
		"the event is after Follow": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.follow("two", newConfig)
			b.server.send(created)
		}, true, 1, 3},
		"the event is after the action": {[]eventList{all}, func(b *expectBench) {
			end := b.expect()
			b.follow("two", newConfig)
			end()
			b.server.send(created)
		}, true, 1, 3},
		"the last of several events counts": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created + metadataEvent("MODIFIED", "new", "4", ofHelmRelease("two")))
			b.follow("two", newConfig)
		}, true, 1, 4},
		"an object loses its annotations": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created + metadataEvent("MODIFIED", "new", "4", `"uid":"u"`))
			b.follow("two", newConfig)
		}, true, 1, 4},
		"another release follows the object for some time": {[]eventList{all, withNew}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created)
			b.follow("three", newConfig)
			<-time.After(2 * rejoinTime)
			b.server.send(metadataEvent("MODIFIED", "new", "4", ofHelmRelease("two")))
			b.watcher.Forget(key("three"))
			b.follow("two", newConfig)
		}, true, 2, 4},
		"the stream restarts for another release": {[]eventList{all, withNew}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created)
			b.follow("three", hostileConfig)
			b.follow("two", newConfig)
		}, false, 2, 3},
		"the object is created again": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created + metadataEvent("DELETED", "new", "4", ofHelmRelease("two")) +
				metadataEvent("ADDED", "new", "5", ofHelmRelease("two")))
			b.follow("two", newConfig)
		}, true, 1, 5},
		"the object is deleted": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created + metadataEvent("DELETED", "new", "4", ofHelmRelease("two")))
			b.follow("two", newConfig)
		}, false, 2, 0},
		"the object is not changed": {[]eventList{withNew}, func(b *expectBench) {
			defer b.expect()()
			b.follow("two", newConfig)
		}, false, 2, 3},
		"the action has ended before": {[]eventList{all, withNew}, func(b *expectBench) {
			end := b.expect()
			b.server.send(created)
			end()
			b.follow("two", newConfig)
		}, false, 2, 3},
		"an earlier action ends late": {[]eventList{all}, func(b *expectBench) {
			end := b.expect()
			defer b.expect()()
			end()
			b.server.send(created)
			b.follow("two", newConfig)
		}, true, 1, 3},
		"the object belongs to another Helm release": {[]eventList{all, withNew}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(metadataEvent("ADDED", "new", "3", ofHelmRelease("other")))
			b.follow("two", newConfig)
		}, false, 2, 3},
		"another identity": {[]eventList{all, withNew}, func(b *expectBench) {
			other := b.conn
			other.Identity = "other"
			defer b.watcher.Expect(key("two"), other, Expectation{Namespace: "ns", Name: "two", Drift: true})()
			b.server.send(created)
			b.follow("two", newConfig)
		}, false, 2, 3},
		"another checker": {[]eventList{all, withNew}, func(b *expectBench) {
			defer b.watcher.Expect(key("two"), b.conn, Expectation{Namespace: "ns", Name: "two", Checker: checker(b.T,
				health.Check{APIVersion: "v1", Kind: "Secret", Current: "true"}), Drift: true})()
			b.server.send(created)
			b.follow("two", newConfig)
		}, false, 2, 3},
		"the most objects that are kept": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			for i := range maxKept - 1 {
				b.server.send(metadataEvent("ADDED", fmt.Sprint(i), "3", ofHelmRelease("two")))
			}
			b.server.send(created)
			b.follow("two", newConfig)
		}, true, 1, 3},
		"too many objects": {[]eventList{all, withNew}, func(b *expectBench) {
			defer b.expect()()
			for i := range maxKept {
				b.server.send(metadataEvent("ADDED", fmt.Sprint(i), "3", ofHelmRelease("two")))
			}
			b.server.send(created)
			b.follow("two", newConfig)
		}, false, 2, 3},
		"the next list has the object": {[]eventList{all, withNew}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(expiration)
			<-time.After(maxPause)
			b.follow("two", newConfig)
		}, true, 2, 3},
		"the next list does not have the object any more": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.server.send(created + expiration)
			<-time.After(maxPause)
			b.follow("two", newConfig)
		}, false, 3, 0},
		"the next list, while the event is awaited, does not have the object": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.follow("two", newConfig)
			b.replace()
		}, false, 2, 0},
		"the next list, soon after the event, does not have the object any more": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.follow("two", newConfig)
			b.server.send(created)
			b.replace()
		}, true, 1, 0},
		"only a list that fails has the object": {
			[]eventList{all, {events: ofOne + created, breaks: true}, all},
			func(b *expectBench) {
				defer b.expect()()
				b.server.send(expiration)
				<-time.After(maxPause)
				b.follow("two", newConfig)
			}, false, 4, 0,
		},
		"the release follows nothing any more": {[]eventList{all}, func(b *expectBench) {
			defer b.expect()()
			b.follow("two", inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "other"})
			b.server.send(created)
			b.watcher.Forget(key("two"))
			b.follow("two", newConfig)
		}, true, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newExpectBench(t, tc.lists...)
				tc.steps(b)
				b.check(tc.known, tc.watches, tc.version)
				if len(b.watcher.expected) > 0 {
					t.Error("an expectation is left after the action")
				}
			})
		})
	}
}

// TestJoinDuringList checks that a release that joins a stream during a list gets the object that the list has shown
// before. An object that the list does not show is not read, because the list may have been too old: the stream
// restarts.
func TestJoinDuringList(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after string
		known         bool
		watches       int
	}{
		"shown before":  {created, "", true, 1},
		"shown after":   {"", created, true, 1},
		"changed after": {metadataEvent("ADDED", "new", "2", ofHelmRelease("two")), created, true, 1},
		"not shown":     {"", "", false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newExpectBench(t, eventList{events: ofOne}, eventList{events: ofOne + created + endOfList})
				defer b.expect()()
				b.server.send(tc.before)
				b.follow("two", newConfig)
				b.server.send(tc.after + endOfList)
				b.check(tc.known, tc.watches, 3)
				if b.server.reads > 0 {
					t.Errorf("%d reads of single objects", b.server.reads)
				}
			})
		})
	}
}

// hookedObject is an object whose examination calls a function.
type hookedObject struct {
	metav1.PartialObjectMetadata
	hook func()
}

// GetUID implements metav1.Object.
func (o *hookedObject) GetUID() types.UID {
	if o.hook != nil {
		hook := o.hook
		o.hook = nil
		hook()
	}
	return o.UID
}

// TestChangesDuringExamination checks that a release that joins a stream while the object is examined gets the result,
// and that the end of the action at this time does no harm.
func TestChangesDuringExamination(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		during func(b *expectBench, end func())
		known  bool
	}{
		"the release joins": {func(b *expectBench, _ func()) {
			b.follow("two", newConfig)
		}, true},
		"the release joins, and the action ends": {func(b *expectBench, end func()) {
			b.follow("two", newConfig)
			end()
		}, true},
		"the action ends, and the release joins": {func(b *expectBench, end func()) {
			end()
			b.follow("two", newConfig)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newExpectBench(t, eventList{events: ofOne + endOfList})
				end := b.expect()
				s := slices.Collect(maps.Values(b.watcher.links[""][""].streams))[0]
				object := &hookedObject{hook: func() { tc.during(b, end) }}
				object.Namespace, object.Name, object.Annotations = "ns", "new", map[string]string{
					inventory.HelmReleaseNamespace: "ns", inventory.HelmReleaseName: "two"}
				(&feed{stream: s, run: s.run, latest: s.list}).changed(object)
				if snapshot, _ := b.watcher.Look(key("two")); snapshot.Synced != tc.known {
					t.Errorf("known: %t", snapshot.Synced)
				}
			})
		})
	}
}

// TestEventDuringReplacementOfChecker checks that a release gets the change of an object although the release gets
// another checker with the same checks while the object is examined.
func TestEventDuringReplacementOfChecker(t *testing.T) {
	t.Parallel()
	plan := Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true, Checker: checker(t)}
	other := *plan.Checker
	same, changed := plan, plan
	same.Checker = &other
	changed.Checker, changed.ListEvery = &other, time.Hour
	for name, next := range map[string]Plan{"the same plan": same, "another plan": changed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newExpectBench(t, eventList{events: ofOne + endOfList})
				follow := func(plan Plan) { b.watcher.Follow(key("one"), b.conn, plan) }
				follow(plan)
				<-time.After(2 * rejoinTime)
				synctest.Wait()
				if snapshot, _ := b.watcher.Look(key("one")); !snapshot.Synced {
					t.Fatalf("got %+v", snapshot)
				}
				s := slices.Collect(maps.Values(b.watcher.links[""][""].streams))[0]
				object := &hookedObject{hook: func() { follow(next) }}
				object.Namespace, object.Name, object.ResourceVersion = "ns", "c", "7"
				(&feed{stream: s, run: s.run, latest: s.list}).changed(object)
				if snapshot, _ := b.watcher.Look(key("one")); snapshot.Objects[hostileConfig].ResourceVersion != 7 {
					t.Errorf("got %+v", snapshot)
				}
			})
		})
	}
}

// TestExpectedRecordsAreListed checks that the watch of Helm's records restarts for a release that joins: its records
// are not kept.
func TestExpectedRecordsAreListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newExpectBench(t, eventList{events: endOfList})
		follow := func(name string) {
			b.watcher.Follow(key(name), b.conn, Plan{Records: &RecordsRef{Namespace: "ns", Name: name}})
			<-time.After(2 * rejoinTime)
			synctest.Wait()
		}
		follow("one")
		defer b.expect()()
		before := len(b.server.watched)
		follow("two")
		if snapshot, _ := b.watcher.Look(key("two")); !snapshot.Synced || len(b.server.watched) != before+1 {
			t.Errorf("synced: %t; %d watches after %d", snapshot.Synced, len(b.server.watched), before)
		}
	})
}

// TestKeptObjects checks which objects are kept.
func TestKeptObjects(t *testing.T) {
	t.Parallel()
	const namespace, name = "ns", "two"
	all := Expectation{Namespace: namespace, Name: name, Checker: checker(t), Drift: true}
	at := objectKey{namespace: namespace, name: "new"}
	for what, tc := range map[string]struct {
		mode       mode
		expected   Expectation
		at         objectKey
		isFollowed bool
		want       bool
	}{
		"metadata": {metadataOnly, all, at, false, true},
		"metadata, without drift": {metadataOnly,
			Expectation{Namespace: namespace, Name: name, Checker: all.Checker}, at, false, false},
		"a full object": {whole, all, at, false, true},
		"a full object, without health": {whole,
			Expectation{Namespace: namespace, Name: name, Drift: true}, at, false, false},
		"a record":          {helmRecords, all, at, false, false},
		"a listed object":   {listed, all, at, false, false},
		"a followed object": {metadataOnly, all, at, true, false},
		"another release": {metadataOnly,
			Expectation{Namespace: namespace, Name: "other", Drift: true}, at, false, false},
		"another namespace": {metadataOnly,
			Expectation{Namespace: "other", Name: name, Drift: true}, at, false, false},
		"a name that no object can have": {metadataOnly, all,
			objectKey{namespace: namespace, name: strings.Repeat("x", maxTextBytes)}, false, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := &stream{key: streamKey{mode: tc.mode}, followers: map[objectKey][]target{}}
			if tc.isFollowed {
				s.followers[tc.at] = []target{{}}
			}
			obj := &metav1.ObjectMeta{Annotations: map[string]string{
				inventory.HelmReleaseNamespace: namespace, inventory.HelmReleaseName: name}}
			if got := (&expectation{Expectation: tc.expected}).keepsLocked(s, tc.at, obj); got != tc.want {
				t.Errorf("kept: %t", got)
			}
		})
	}
}
