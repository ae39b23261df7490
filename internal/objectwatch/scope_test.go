// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	ofNamespace      = "/api/v1/namespaces/ns/configmaps"
	ofOtherNamespace = "/api/v1/namespaces/other/configmaps"
	ofAllNamespaces  = "/api/v1/configmaps"
)

// namespacedServer is an API server with hostileConfig, and with another ConfigMap in the namespace "other".
type namespacedServer struct {
	mu sync.Mutex
	// refusesAll is true if requests for all namespaces are forbidden.
	refusesAll bool
	// paths are the paths of the requests.
	paths []string
}

// inNamespaces returns a text about hostileConfig once for each namespace that a path includes.
func inNamespaces(path, text string) string {
	other := strings.ReplaceAll(text, `"namespace":"ns"`, `"namespace":"other"`)
	switch path {
	case ofNamespace:
		return text
	case ofOtherNamespace:
		return other
	default:
		return text + other
	}
}

// respond answers a request.
func (s *namespacedServer) respond(r *http.Request) (*http.Response, error) {
	path := r.URL.Path
	s.mu.Lock()
	s.paths = append(s.paths, path)
	refusesAll := s.refusesAll
	s.mu.Unlock()
	if path == ofAllNamespaces && refusesAll {
		return answer(r, http.StatusForbidden,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`), nil
	}
	if r.URL.Query().Get("watch") == "" {
		begin, item, _ := strings.Cut(strings.TrimSuffix(listOf(`"continue":""`), "]}"), "[")
		items := strings.ReplaceAll(inNamespaces(path, item), "}}{", "}},{")
		return answer(r, http.StatusOK, begin+"["+items+"]}"), nil
	}
	response := answer(r, http.StatusOK, "")
	body, events := io.Pipe()
	response.Body = body
	context.AfterFunc(r.Context(), func() { _ = events.Close() })
	go func() {
		_, _ = io.WriteString(events, inNamespaces(path, metadataEvent("ADDED", "c", "1", `"uid":"u"`))+endOfList)
	}()
	return response, nil
}

// taken returns the different paths of the requests since the last call.
func (s *namespacedServer) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := s.paths
	s.paths = nil
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestStreamsOfOneNamespace checks that only this namespace is requested while all objects of a kind are in one
// namespace. So an identity with rights in this namespace causes no refused request. When an object in another
// namespace joins, both objects are followed.
func TestStreamsOfOneNamespace(t *testing.T) {
	t.Parallel()
	const every = 10 * time.Minute
	other := hostileConfig
	other.Namespace = "other"
	narrowed := []string{ofAllNamespaces, ofNamespace, ofOtherNamespace}
	for name, tc := range map[string]struct {
		plan       Plan
		refusesAll bool
		want       []string
	}{
		"watches":                     {Plan{Drift: true}, false, []string{ofAllNamespaces}},
		"watches of one namespace":    {Plan{Drift: true}, true, narrowed},
		"lists of only one namespace": {Plan{ListEvery: every}, true, narrowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &namespacedServer{refusesAll: tc.refusesAll}
				watcher, conn := startWatcher(t), connectionTo(server.respond)
				follow := func(name string, ref inventory.Ref) {
					plan := tc.plan
					plan.Objects = []inventory.Ref{ref}
					watcher.Follow(key(name), conn, plan)
				}
				check := func(when string, want []string, known map[string]inventory.Ref) {
					t.Helper()
					// The server ends no watch within this time.
					<-time.After(2 * every)
					for name, ref := range known {
						snapshot, _ := watcher.Look(key(name))
						if state := snapshot.Objects[ref]; !state.Known || !state.Exists || snapshot.Err != nil {
							t.Errorf("%s: %s is %+v, with error %v", when, ref, state, snapshot.Err)
						}
					}
					if got := server.taken(); !slices.Equal(got, want) {
						t.Errorf("%s: requests for %v, want %v", when, got, want)
					}
				}
				follow("one", hostileConfig)
				check("one namespace", []string{ofNamespace}, map[string]inventory.Ref{"one": hostileConfig})
				follow("two", other)
				check("two namespaces", tc.want, map[string]inventory.Ref{"one": hostileConfig, "two": other})
			})
		})
	}
}

// TestExpectedNamespaces checks that a stream watches all namespaces from its beginning if releases in other namespaces
// are expected, also when it restarts after the plan has changed. It watches one namespace if all namespaces are not
// permitted. A list does not begin again for later releases, so it stays in one namespace.
func TestExpectedNamespaces(t *testing.T) {
	t.Parallel()
	const every = 10 * time.Minute
	for name, tc := range map[string]struct {
		plan            Plan
		otherNamespaces bool
		refusesAll      bool
		// want and restarted are the paths of the requests for the first release, and after another one has joined.
		want, restarted []string
	}{
		"other namespaces": {Plan{Drift: true}, true, false, []string{ofAllNamespaces}, []string{ofAllNamespaces}},
		"one namespace":    {Plan{Drift: true}, false, false, []string{ofNamespace}, []string{ofNamespace}},
		"not permitted":    {Plan{Drift: true}, true, true, []string{ofAllNamespaces, ofNamespace}, []string{ofNamespace}},
		"lists":            {Plan{ListEvery: every}, true, false, []string{ofNamespace}, []string{ofNamespace}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &namespacedServer{refusesAll: tc.refusesAll}
				watcher, conn := startWatcher(t), connectionTo(server.respond)
				follow := func(release string, listEvery time.Duration) {
					plan := tc.plan
					plan.Objects, plan.ListEvery = []inventory.Ref{hostileConfig}, listEvery
					watcher.Follow(key(release), conn, plan)
				}
				check := func(release string, want []string) {
					t.Helper()
					<-time.After(2 * every)
					snapshot, _ := watcher.Look(key(release))
					if state := snapshot.Objects[hostileConfig]; !state.Known || !state.Exists || snapshot.Err != nil {
						t.Errorf("for release %s, the object is %+v, with error %v", release, state, snapshot.Err)
					}
					if got := server.taken(); !slices.Equal(got, want) {
						t.Errorf("with release %s: requests for %v, want %v", release, got, want)
					}
				}
				end := watcher.Expect(key("one"), conn, Expectation{OtherNamespaces: tc.otherNamespaces})
				follow("one", every)
				end()
				check("one", tc.want)
				follow("one", every+1)
				follow("two", every)
				check("two", tc.restarted)
			})
		})
	}
}

// TestKnownObjectOfAnotherNamespace checks that a watch of one namespace restarts for an object of another namespace
// although the object is known, and that it does not restart for a known object of the same namespace.
func TestKnownObjectOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, server := startWatcher(t), &namespacedServer{}
		l, err := newLink(w, linkID{}, connectionTo(server.respond))
		if err != nil {
			t.Fatal(err)
		}
		r := newRelease(key("r"), 0, Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
		configs := builtIn[hostileConfig.GroupVersionKind()].GroupVersionResource
		for _, step := range []struct {
			namespace string
			known     bool
			want      []string
		}{{"ns", false, []string{ofNamespace}}, {"ns", true, nil}, {"other", true, []string{ofAllNamespaces}}} {
			w.mu.Lock()
			l.exactLocked(streamKey{resource: configs, mode: metadataOnly}).joinLocked(
				objectKey{namespace: step.namespace, name: "c"}, target{release: r}, step.known)
			w.mu.Unlock()
			<-time.After(time.Minute)
			if got := server.taken(); !slices.Equal(got, step.want) {
				t.Errorf("an object in %s joins: requests for %v, want %v", step.namespace, got, step.want)
			}
		}
	})
}

// TestPermissionForAllNamespacesReturns checks that streams of single namespaces become one stream again when the
// identity may watch all namespaces again, and that HelmOp checks this only about once an hour. One namespace has no
// stream before, because of the limit on the number of streams.
func TestPermissionForAllNamespacesReturns(t *testing.T) {
	t.Parallel()
	other := hostileConfig
	other.Namespace = "other"
	for name, tc := range map[string]struct {
		plan       Plan
		maxStreams int
	}{
		"watches":           {Plan{Drift: true}, maxStreams},
		"too many watches":  {Plan{Drift: true}, 1},
		"lists":             {Plan{ListEvery: 10 * time.Minute}, maxStreams},
		"watches of health": {Plan{Checker: checker(t, health.Check{APIVersion: "v1", Kind: "ConfigMap", Current: "true"})}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &namespacedServer{refusesAll: true}
				watcher, conn := startWatcher(t), connectionTo(server.respond)
				watcher.maxStreams = tc.maxStreams
				for _, ref := range []inventory.Ref{hostileConfig, other} {
					plan := tc.plan
					plan.Objects = []inventory.Ref{ref}
					watcher.Follow(key(ref.Namespace), conn, plan)
				}
				wide := func(after time.Duration) (isWide bool) {
					<-time.After(after)
					synctest.Wait()
					watcher.mu.Lock()
					defer watcher.mu.Unlock()
					for _, l := range watcher.links[""] {
						for key := range l.streams {
							isWide = isWide || key.namespace == ""
						}
					}
					return isWide
				}
				if wide(10 * time.Minute) {
					t.Error("the streams are not narrow")
				}
				server.taken()
				if wide(5 * time.Hour) {
					t.Error("the streams are wide without permission")
				}
				server.mu.Lock()
				checks := slices.DeleteFunc(server.paths, func(path string) bool { return path != ofAllNamespaces })
				server.refusesAll = false
				server.mu.Unlock()
				if len(checks) < 2 || len(checks) > 5 {
					t.Errorf("%d checks in five hours", len(checks))
				}
				if !wide(3 * time.Hour) {
					t.Error("the streams stay narrow")
				}
				for _, ref := range []inventory.Ref{hostileConfig, other} {
					snapshot, _ := watcher.Look(key(ref.Namespace))
					if state := snapshot.Objects[ref]; !state.Known || !state.Exists || snapshot.Err != nil {
						t.Errorf("%s is %+v, with error %v", ref, state, snapshot.Err)
					}
				}
			})
		})
	}
}
