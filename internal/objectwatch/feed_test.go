// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestWatchesAreNotCompressed: API servers compress long responses of clients that accept it, and a decompressor would
// be kept for each watch.
func TestWatchesAreNotCompressed(t *testing.T) {
	t.Parallel()
	accepted := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		accepted <- r.Header.Get("Accept-Encoding")
	}))
	t.Cleanup(server.Close)
	for _, mode := range []mode{whole, metadataOnly, helmRecords} {
		link, err := newLink(New(Options{}), linkID{}, Connection{Config: &rest.Config{Host: server.URL}})
		if err != nil {
			t.Fatal(err)
		}
		f := feed{stream: &stream{link: link, key: streamKey{resource: secrets.GroupVersionResource, mode: mode}}}
		body, err := f.request().Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = body.Close()
		if got := <-accepted; got != "identity" {
			t.Errorf("mode %d: encoding %q is accepted", mode, got)
		}
	}
}

// metadataEvent returns an event with a part of an object's metadata.
func metadataEvent(kind, name, version, more string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":`+
		`{"name":%q,"namespace":"ns","resourceVersion":%q,%s}}}`+"\n", kind, name, version, more)
}

// serveWatch returns a server that answers each watch with the first text, and with the second text when later is
// closed. It also returns the number of watches.
func serveWatch(t *testing.T, first, second string, later <-chan struct{}) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var watches atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watches.Add(1)
		_, _ = w.Write([]byte(first))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-later:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(second))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server, &watches
}

// TestEventsThatArriveWithEndOfList checks that no event is lost, and that the watch continues, if the end of a list
// and the next events arrive together.
func TestEventsThatArriveWithEndOfList(t *testing.T) {
	t.Parallel()
	note := func(size int) string { return `"annotations":{"a":"` + strings.Repeat("x", size) + `"}` }
	changed := func(version string, size int) string { return metadataEvent("MODIFIED", "c", version, note(size)) }
	// The list and a small event fit into one read of the body. A large event is read in several parts.
	list := metadataEvent("ADDED", "c", "1", note(1)) + endOfList
	for name, tc := range map[string]struct {
		events string
		want   int64
	}{
		"no event":      {want: 1},
		"a small event": {events: changed("3", 2), want: 3},
		"a large event": {events: changed("3", 5000), want: 3},
		"two events":    {events: metadataEvent("MODIFIED", "other", "3", note(1)) + changed("4", 2), want: 4},
		"an empty line": {events: "\n" + changed("3", 2), want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The event that is sent later shows that nothing before it was misread.
			later := make(chan struct{})
			server, watches := serveWatch(t, list+tc.events, changed("9", 3), later)
			watcher := startWatcher(t)
			config := inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c"}
			watcher.Follow(key("r"), Connection{Config: &rest.Config{Host: server.URL}},
				Plan{Objects: []inventory.Ref{config}, Drift: true})
			reaches := func(version int64) {
				t.Helper()
				eventually(t, fmt.Sprint("version ", version), func() bool {
					snapshot, _ := watcher.Look(key("r"))
					return snapshot.Objects[config].ResourceVersion == version
				})
			}
			reaches(tc.want)
			close(later)
			reaches(9)
			if n := watches.Load(); n != 1 {
				t.Errorf("the watch was opened %d times", n)
			}
		})
	}
}

// serveRestored returns a server whose lists have the version 100 of an object. When restored is closed, its watches
// break, and its lists have the version 50. It accepts all watches from a version, and sends no events. It also returns
// the number of such watches after the restore.
func serveRestored(t *testing.T, restored <-chan struct{}) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var silent atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version, isRestored := "100", false
		select {
		case <-restored:
			version, isRestored = "50", true
		default:
		}
		if r.URL.Query().Get("resourceVersion") == "" {
			_, _ = w.Write([]byte(metadataEvent("ADDED", "c", version, `"annotations":{}`)))
			_, _ = w.Write([]byte(metadataEvent("BOOKMARK", "", version,
				`"annotations":{"k8s.io/initial-events-end":"true"}`)))
		} else if isRestored {
			silent.Add(1)
		}
		_ = http.NewResponseController(w).Flush()
		end := restored
		if isRestored {
			end = nil
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server, &silent
}

// TestReconnectReadsRestoredCluster checks that Reconnect requests the releases of a restored cluster, and that their
// objects are listed again. Before it, a watch from a version that the cluster has not reached again is silent.
func TestReconnectReadsRestoredCluster(t *testing.T) {
	t.Parallel()
	restored := make(chan struct{})
	server, silent := serveRestored(t, restored)
	watcher := startWatcher(t)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := watcher.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	config := inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c"}
	conn := Connection{Cluster: "default/c", Config: &rest.Config{Host: server.URL}}
	plan := Plan{Objects: []inventory.Ref{config}, Drift: true}
	version := func() int64 {
		snapshot, _ := watcher.Look(key("r"))
		return snapshot.Objects[config].ResourceVersion
	}
	watcher.Follow(key("r"), conn, plan)
	eventually(t, "the first list", func() bool { return version() == 100 })
	request, _ := queue.Get()
	queue.Done(request)

	close(restored)
	eventually(t, "a watch of the restored cluster", func() bool { return silent.Load() > 0 })
	if v := version(); v != 100 || queue.Len() > 0 {
		t.Fatalf("version %d, with %d requests, before the restore is known", v, queue.Len())
	}
	watcher.Reconnect("another")
	watcher.Reconnect("default/c")
	eventually(t, "a request of the release", func() bool { return queue.Len() == 1 })
	watcher.Follow(key("r"), conn, plan)
	eventually(t, "the restored version", func() bool { return version() == 50 })
}
