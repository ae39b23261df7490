// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// readServer is an API server with hostileConfig. The test sends the events of its watch, and answers the reads of the
// object.
type readServer struct {
	events chan string
	// reads has an item for each read that has begun. The read ends with the next of the statuses.
	reads    chan struct{}
	statuses chan int
}

func newReadServer() *readServer {
	return &readServer{events: make(chan string), reads: make(chan struct{}, 100), statuses: make(chan int)}
}

// respond answers a request. Other objects than hostileConfig do not exist.
func (s *readServer) respond(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Query().Get("watch") != "":
		response := answer(r, http.StatusOK, "")
		body, events := io.Pipe()
		response.Body = body
		context.AfterFunc(r.Context(), func() { _ = events.Close() })
		go func() {
			if r.URL.Path != ofNamespace {
				_, _ = io.WriteString(events, endOfList)
				return
			}
			_, _ = io.WriteString(events, metadataEvent("ADDED", "c", "1", `"uid":"u"`)+endOfList)
			for r.Context().Err() == nil {
				select {
				case event := <-s.events:
					_, _ = io.WriteString(events, event)
				case <-r.Context().Done():
				}
			}
		}()
		return response, nil
	case r.URL.Path == ofNamespace+"/c":
		s.reads <- struct{}{}
		select {
		case status := <-s.statuses:
			if status == http.StatusOK {
				return answer(r, status, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`+
					`{"name":"c","namespace":"ns","uid":"u","labels":{"app.kubernetes.io/managed-by":"Helm"}}}`), nil
			}
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return answer(r, http.StatusNotFound, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure",`+
		`"reason":"NotFound","code":404,"details":{"name":%q}}`, r.URL.Path)), nil
}

// TestNewPlanKeepsPendingReads checks that an object that vanished from its stream is read although the plan of its
// release changes during the read.
func TestNewPlanKeepsPendingReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, server := startWatcher(t), newReadServer()
		conn := connectionTo(server.respond)
		w.Follow(key("r"), conn, Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
		server.events <- metadataEvent("DELETED", "c", "3", `"uid":"u"`)
		<-server.reads
		other := inventory.Ref{Version: "v1", Kind: "ServiceAccount", Namespace: "ns", Name: "s"}
		w.Follow(key("r"), conn, Plan{Objects: []inventory.Ref{hostileConfig, other}, Drift: true})
		server.statuses <- http.StatusNotFound
		synctest.Wait()
		select {
		case server.statuses <- http.StatusNotFound:
		case <-time.After(time.Hour):
		}
		synctest.Wait()
		snapshot, _ := w.Look(key("r"))
		if state := snapshot.Objects[hostileConfig]; !state.Known || state.Health != health.NotFound {
			t.Errorf("the deleted object is %+v", state)
		}
	})
}

// TestVanishedAgainDuringRead checks that a read does not count for an object that was created and deleted again during
// the read.
func TestVanishedAgainDuringRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, server := startWatcher(t), newReadServer()
		w.Follow(key("r"), connectionTo(server.respond), Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
		server.events <- metadataEvent("DELETED", "c", "3", `"uid":"u"`)
		<-server.reads
		<-time.After(time.Second)
		server.events <- metadataEvent("ADDED", "c", "4", `"uid":"v"`)
		server.events <- metadataEvent("DELETED", "c", "5", `"uid":"v"`)
		synctest.Wait()
		server.statuses <- http.StatusOK
		select {
		case server.statuses <- http.StatusNotFound:
		case <-time.After(time.Hour):
		}
		synctest.Wait()
		snapshot, _ := w.Look(key("r"))
		if state := snapshot.Objects[hostileConfig]; state.Health != health.NotFound {
			t.Errorf("the deleted object is %+v", state)
		}
	})
}
