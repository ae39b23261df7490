// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func TestFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first, second failure
		if first.isStuck(time.Minute) || first.older(second).err != nil {
			t.Error("a failure is reported without a failure")
		}
		began := time.Now()
		if !first.set(errors.New("a")) || first.set(errors.New("a")) {
			t.Error("an error is news once")
		}
		<-time.After(time.Minute)
		second.set(errors.New("c"))
		if !first.set(errors.New("b")) || !first.since.Equal(began) {
			t.Errorf("another error is news, but the trouble began before: %+v", first)
		}
		if !first.isStuck(time.Minute) || second.isStuck(time.Minute) {
			t.Error("a failure is not reported after a minute")
		}
		if first.older(second).err.Error() != "b" || second.older(first).err.Error() != "b" ||
			second.older(failure{}).err.Error() != "c" {
			t.Error("want what began first")
		}
	})
}

// TestFailureRequestsReleaseOnce checks that a release is requested once when a cluster has not answered for a long
// time, and once when it answers again.
func TestFailureRequestsReleaseOnce(t *testing.T) {
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	b.watcher.stuckAfter = 3 * time.Second
	release := key("r")
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{deployment, config}, Checker: checker(t), Drift: true})
	if before := b.synced(release); before.Err != nil || !before.ErrSince.IsZero() {
		t.Fatalf("got %+v", before)
	}
	asked := b.settled(release)
	if err := b.server.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a request about it", func() bool { return b.asked(release) > asked })
	stuck := b.look(release)
	if !stuck.Synced || stuck.Err == nil || time.Since(stuck.ErrSince) < b.watcher.stuckAfter {
		t.Errorf("got %+v", stuck)
	}
	never(t, 3*time.Second, "the release was asked for twice", func() bool { return b.asked(release) > asked+1 })
	if still := b.look(release); !still.ErrSince.Equal(stuck.ErrSince) {
		t.Errorf("the trouble began at %s, not %s", stuck.ErrSince, still.ErrSince)
	}
	if err := b.server.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a request when all is well",
		func() bool { return b.asked(release) > asked+1 && b.look(release).Err == nil })
	if after := b.look(release); !after.ErrSince.IsZero() {
		t.Errorf("got %+v", after)
	}
}

// refusingMapper returns an error for Widgets and implements nothing else.
type refusingMapper struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper.
func (refusingMapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if kind.Kind == "Widget" {
		return nil, errors.New("503")
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind}
}

// TestFailureOfOneKindDoesNotAffectOthers checks that failures and responses of one kind do not affect another kind.
func TestFailureOfOneKindDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	l, err := newLink(w, linkID{}, Connection{Config: &rest.Config{}, Mapper: refusingMapper{}})
	if err != nil {
		t.Fatal(err)
	}
	refs := map[string]inventory.Ref{}
	for _, kind := range []string{"Widget", "Gadget"} {
		refs[kind] = inventory.Ref{Group: "example.com", Version: "v1", Kind: kind, Name: "x"}
		r := newRelease(key(kind), 0, Plan{Objects: []inventory.Ref{refs[kind]}, Drift: true})
		r.link = l
		l.releases[r], w.releases[r.key] = struct{}{}, r
		l.pendingReads.resolve(refs[kind].GroupVersionKind())
	}
	l.resolveKind(refs["Widget"].GroupVersionKind())
	first, _ := w.Look(key("Widget"))
	for range 3 {
		l.resolveKind(refs["Gadget"].GroupVersionKind())
		l.resolveKind(refs["Widget"].GroupVersionKind())
	}
	widget, _ := w.Look(key("Widget"))
	gadget, _ := w.Look(key("Gadget"))
	if state := widget.Objects[refs["Widget"]]; first.Err == nil || !widget.ErrSince.Equal(first.ErrSince) ||
		state.Known ||
		state.WatchError == nil || !state.WatchError.Since.Equal(first.ErrSince) {
		t.Errorf("got %+v, then %+v", first, widget)
	}
	if state := gadget.Objects[refs["Gadget"]]; gadget.Err != nil || !gadget.Synced || !state.Known ||
		state.WatchError != nil {
		t.Errorf("got %+v", gadget)
	}
	if failures := l.pendingReads.kinds[refs["Widget"].GroupVersionKind()].failures; failures != 4 {
		t.Errorf("%d failures", failures)
	}
}

// TestForbiddenKindDoesNotHideHealthOfOthers checks that the health of other objects is followed if a kind must not be
// watched.
func TestForbiddenKindDoesNotHideHealthOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	tenant := b.connection("cluster", b.grant("tenant",
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"},
			Verbs: []string{"get", "list", "watch"}}))
	release := key("r")
	b.watcher.Follow(release, tenant, Plan{
		Objects: []inventory.Ref{deployment, config}, Checker: checker(t), Drift: true,
		Records: &RecordsRef{Namespace: b.namespace, Name: "r"},
	})
	b.becomes(release, config, "forbidden", func(s State) bool {
		return !s.Known && s.WatchError != nil && errors.Is(s.WatchError.Err, ErrForbidden)
	})
	if state := b.becomes(release, deployment, "known", func(s State) bool { return s.Known }); state.WatchError != nil {
		t.Errorf("got %+v", state)
	}
	asked := b.settled(release)
	b.rollOut("d")
	eventually(t, "a request about the health", func() bool { return b.asked(release) > asked })
	b.status(release, deployment, health.Current)
	if snapshot := b.look(release); snapshot.Synced || !errors.Is(snapshot.Err, ErrForbidden) {
		t.Errorf("got %+v", snapshot)
	}
}

// TestLastingFailureOfKindIsReported checks that a lasting failure of discovery requests each release once, and that
// the cost of this is one look at each release, however many objects of the kind it has.
func TestLastingFailureOfKindIsReported(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	w.stuckAfter = 0
	l, err := newLink(w, linkID{}, Connection{Config: &rest.Config{}, Mapper: refusingMapper{}})
	if err != nil {
		t.Fatal(err)
	}
	widget := inventory.Ref{Group: "example.com", Version: "v1", Kind: "Widget"}
	for _, name := range []string{"one", "two"} {
		refs := []inventory.Ref{{Group: "example.com", Version: "v1", Kind: "Gadget", Name: "g"}}
		for i := range 100 {
			widget.Name = fmt.Sprint(i)
			refs = append(refs, widget)
		}
		r := newRelease(key(name), 0, Plan{Objects: refs, Drift: true})
		r.link = l
		l.releases[r], w.releases[r.key] = struct{}{}, r
	}
	if concerned := l.withoutStreamLocked(widget.GroupVersionKind()); len(concerned) != 2 {
		t.Errorf("the failure concerns %d releases", len(concerned))
	}
	for attempt, want := range []int{2, 0} {
		w.notifier.changes = nil
		l.resolveKind(widget.GroupVersionKind())
		if got := len(w.notifier.changes); got != want {
			t.Errorf("attempt %d requests %d releases, want %d", attempt, got, want)
		}
	}
}

// TestEndOfLastingFailureRequestsRelease checks that the end of a lasting failure requests its releases. It must do so
// also if the last attempt failed too early to count: another pass over the release may have reported the failure since
// then.
func TestEndOfLastingFailureRequestsRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		age  time.Duration
		want bool
	}{"short": {StuckAfter - 1, false}, "lasting": {StuckAfter, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := New(Options{})
				l, err := newLink(w, linkID{}, Connection{Config: &rest.Config{}, Mapper: refusingMapper{}})
				if err != nil {
					t.Fatal(err)
				}
				gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
				refs := []inventory.Ref{{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Name: "g"}}
				watched, unresolved := newRelease(key("watched"), 0, Plan{}), newRelease(key("unresolved"), 0,
					Plan{Objects: refs, Drift: true})
				watched.link, unresolved.link, unresolved.objects[0].exists = l, l, true
				l.releases[watched], l.releases[unresolved] = struct{}{}, struct{}{}
				s := &stream{link: l, followers: map[objectKey][]target{{}: {{release: watched}}}}
				s.failLocked(errors.New("500"))
				l.unresolvedLocked(gvk, errors.New("503"))
				w.notifier.changes = nil
				<-time.After(tc.age)
				s.clearFailureLocked()
				l.resolveKind(gvk)
				for _, r := range []*release{watched, unresolved} {
					if _, got := w.notifier.changes[r.key]; got != tc.want {
						t.Errorf("release %s is requested: %t", r.key.Name, got)
					}
				}
			})
		})
	}
}

// TestFailureOfHealthIsReportedAfterEarlierFailure checks that an earlier failure, which was reported long ago,
// does not hide a failure of health.
func TestFailureOfHealthIsReportedAfterEarlierFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{})
		l, err := newLink(w, linkID{}, Connection{Config: &rest.Config{}})
		if err != nil {
			t.Fatal(err)
		}
		r := newRelease(key("r"), 0, Plan{Objects: []inventory.Ref{
			{Group: "apps", Version: "v1", Kind: "Deployment", Name: "d"}, {Version: "v1", Kind: "ConfigMap", Name: "c"},
		}, Checker: checker(t), Drift: true})
		r.link = l
		health, other := &stream{link: l}, &stream{link: l}
		for i := range r.objects {
			if r.objects[i].stream = other; r.objects[i].healthChecked {
				r.objects[i].stream = health
			}
		}
		reported := func(what string, s *stream, want bool) {
			t.Helper()
			w.notifier.changes = nil
			s.failure.set(errors.New("503"))
			w.requestFailureLocked(releases{r: {}})
			if got := len(w.notifier.changes) > 0; got != want {
				t.Errorf("%s: asked for: %t", what, got)
			}
		}
		other.failure.set(errors.New("503"))
		<-time.After(StuckAfter)
		reported("what lasts", other, true)
		reported("what went on", other, false)
		reported("what health has just got into", health, false)
		<-time.After(StuckAfter)
		reported("what health has long been in", health, true)
		reported("what went on there", health, false)
	})
}

func TestFailureOfConnection(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	bad := Connection{Cluster: "c", Config: &rest.Config{Host: "://"}}
	w.Follow(key("r"), bad, Plan{})
	first, _ := w.Look(key("r"))
	w.Follow(key("r"), bad, Plan{Drift: true})
	if second, _ := w.Look(key("r")); first.Err == nil || first.ErrSince.IsZero() ||
		!second.ErrSince.Equal(first.ErrSince) {
		t.Errorf("got %+v, then %+v", first, second)
	}
}

// TestErrorStaysUntilListAfterExpiry checks that a watch that begins again after an outage does not end the error if
// its first event is that its version is too old. The states from before the outage are outdated until the next list.
func TestErrorStaysUntilListAfterExpiry(t *testing.T) {
	t.Parallel()
	for name, isEvent := range map[string]bool{"as an event": true, "as the response": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
				breaks, lists := make(chan struct{}), make(chan struct{}, 1)
				lists <- struct{}{}
				began := time.Now()
				w := startWatcher(t)
				w.Follow(key("r"), connectionTo(func(r *http.Request) (*http.Response, error) {
					switch isList := r.URL.Query().Get("sendInitialEvents") != ""; {
					case !isList && time.Since(began) < 6*time.Minute:
						return answer(r, http.StatusInternalServerError, "{}"), nil
					case !isList && isEvent:
						return answer(r, http.StatusOK, `{"type":"ERROR","object":`+expired+"}\n"), nil
					case !isList:
						return answer(r, http.StatusGone, expired), nil
					}
					select {
					case <-lists:
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
					response := answer(r, http.StatusOK, "")
					body, events := io.Pipe()
					response.Body = body
					context.AfterFunc(r.Context(), func() { _ = events.Close() })
					go func() {
						_, _ = io.WriteString(events, metadataEvent("ADDED", "c", "1", `"uid":"u"`)+endOfList)
						<-breaks
						_ = events.Close()
					}()
					return response, nil
				}), Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
				<-time.After(time.Second)
				breaks <- struct{}{}
				for time.Since(began) < 10*time.Minute {
					<-time.After(5 * time.Second)
					synctest.Wait()
					if snapshot, _ := w.Look(key("r")); snapshot.Err == nil {
						t.Fatalf("no error after %s: %+v", time.Since(began), snapshot)
					}
				}
				lists <- struct{}{}
				<-time.After(5 * time.Minute)
				synctest.Wait()
				if snapshot, _ := w.Look(key("r")); snapshot.Err != nil || !snapshot.Synced {
					t.Errorf("after the list: %+v", snapshot)
				}
				close(breaks)
			})
		})
	}
}
