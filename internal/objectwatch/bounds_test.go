// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// startWatcher returns a Watcher that ends with the test.
func startWatcher(t *testing.T) *Watcher {
	t.Helper()
	watcher := New(Options{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := watcher.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	return watcher
}

var (
	hostileConfig  = inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c"}
	hostileRecords = &RecordsRef{Namespace: "ns", Name: "app"}
	// endOfList is the event that ends a streaming list.
	endOfList = metadataEvent("BOOKMARK", "", "2", `"annotations":{"k8s.io/initial-events-end":"true"}`)
)

// TestRepeatedObjectsTakeNoMemory checks that the API server of a workload cluster cannot fill the memory of the
// manager with small events about one object, with records of one release, or with objects of a release that is being
// installed. It runs alone, because it measures the memory.
func TestRepeatedObjectsTakeNoMemory(t *testing.T) {
	const events, most = 50_000, 8 << 20
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	for name, tc := range map[string]struct {
		plan  Plan
		event func(i int) string
	}{
		"one object": {
			plan:  Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true},
			event: func(int) string { return metadataEvent("ADDED", "c", "1", `"uid":"u"`) },
		},
		"records of one release": {
			plan: Plan{Records: hostileRecords},
			event: func(i int) string {
				return metadataEvent("ADDED", fmt.Sprint(i, strings.Repeat("x", 200)), "1",
					`"labels":{"owner":"helm","name":"app"}`)
			},
		},
		"objects of an expected release": {
			plan: Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true},
			event: func(i int) string {
				if i == 0 {
					return metadataEvent("ADDED", "c", "1", `"uid":"u"`)
				}
				return metadataEvent("ADDED", fmt.Sprint(i, strings.Repeat("x", 200)), "1", ofHelmRelease("expected"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			grown := make(chan int64, 2)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				before, body := heap(), bufio.NewWriter(w)
				// At the second measurement, the list has ended.
				for _, end := range []string{endOfList, ""} {
					for i := range events {
						_, _ = body.WriteString(tc.event(i))
					}
					_ = body.Flush()
					_ = http.NewResponseController(w).Flush()
					select {
					case grown <- heap() - before:
					case <-r.Context().Done():
						return
					}
					_, _ = body.WriteString(end)
				}
				<-r.Context().Done()
			}))
			t.Cleanup(server.Close)
			watcher, conn := startWatcher(t), Connection{Config: &rest.Config{Host: server.URL}}
			defer watcher.Expect(key("e"), conn, Expectation{Namespace: "ns", Name: "expected", Drift: true})()
			watcher.Follow(key("r"), conn, tc.plan)
			for _, when := range []string{"during the list", "after the list"} {
				if got := <-grown; got > most {
					t.Errorf("%d events %s take %d bytes", events, when, got)
				}
			}
			eventually(t, "the end of the list", func() bool {
				snapshot, _ := watcher.Look(key("r"))
				return snapshot.Synced
			})
		})
	}
}

// TestEndlessPages checks that a list without an end ends with an error, and that each of its requests has a deadline.
func TestEndlessPages(t *testing.T) {
	t.Parallel()
	var pages atomic.Int32
	watcher := startWatcher(t)
	watcher.Follow(key("r"), connectionTo(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") != "" {
			return answer(r, http.StatusBadRequest, `{"kind":"Status","apiVersion":"v1",`+
				`"status":"Failure","reason":"BadRequest","code":400}`), nil
		}
		pages.Add(1)
		if deadline, ok := r.Context().Deadline(); !ok || time.Until(deadline) > listTime {
			t.Errorf("the deadline of a page is %v", deadline)
		}
		return answer(r, http.StatusOK, listOf(`"continue":"more"`)), nil
	}), Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
	var snapshot Snapshot
	eventually(t, "an error", func() bool {
		snapshot, _ = watcher.Look(key("r"))
		return snapshot.Err != nil
	})
	if got := pages.Load(); !strings.Contains(snapshot.Err.Error(), errTooManyPages.Error()) || got < maxListPages {
		t.Errorf("after %d pages: %v", got, snapshot.Err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// connectionTo returns a connection to an API server without a network.
func connectionTo(server roundTripper) Connection {
	return Connection{Config: &rest.Config{Host: "https://hostile.example.com", QPS: -1,
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return server }}}
}

// answer returns the response to a request.
func answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body))}
}

// listOf returns a list with hostileConfig, and with more metadata.
func listOf(more string) string {
	return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1",` + more +
		`},"items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":` +
		`{"name":"c","namespace":"ns"}}]}`
}

// TestObjectDeletedDuringList checks that an object counts as deleted if the cluster deletes it after the list has
// shown it, but before the list ends.
func TestObjectDeletedDuringList(t *testing.T) {
	t.Parallel()
	const label = `"labels":{"owner":"helm","name":"app"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound",` +
				`"code":404,"details":{"name":"c","kind":"configmaps"}}`))
			return
		}
		_, _ = w.Write([]byte(metadataEvent("ADDED", "c", "1", label) + metadataEvent("DELETED", "c", "2", label) +
			endOfList))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	watcher := startWatcher(t)
	watcher.Follow(key("r"), Connection{Config: &rest.Config{Host: server.URL}},
		Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true, Records: hostileRecords})
	var snapshot Snapshot
	eventually(t, "the end of the list", func() bool {
		snapshot, _ = watcher.Look(key("r"))
		return snapshot.Synced
	})
	if state := snapshot.Objects[hostileConfig]; state.Exists || snapshot.Records != recordsDigest(nil) {
		t.Errorf("the object is %+v, the records are %s", state, snapshot.Records)
	}
}

// TestKeptTextsAreShort checks that no finding keeps a long text of the API server.
func TestKeptTextsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(long), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: long}},
		Annotations: map[string]string{inventory.HelmReleaseName: long, inventory.HelmReleaseNamespace: long},
	}}
	found := (&stream{key: streamKey{mode: metadataOnly}}).examine(obj, judge{}, nil)
	if got := len(found.uid) + len(found.manager) + len(found.deletedWith); got > 3*maxTextBytes {
		t.Errorf("%d bytes are kept", got)
	}
}
