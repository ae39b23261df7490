// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// shortWatches is an API server that ends each watch after some time.
type shortWatches struct {
	// isPlain is true if the server does not stream lists.
	isPlain bool

	mu    sync.Mutex
	lasts time.Duration
	ended time.Time
	// gaps are the times from the end of a watch to the beginning of the next one.
	gaps []time.Duration
}

// respond answers a request.
func (s *shortWatches) respond(r *http.Request) (*http.Response, error) {
	switch query := r.URL.Query(); {
	case query.Get("watch") == "":
		return answer(r, http.StatusOK, listOf(`"continue":""`)), nil
	case s.isPlain && query.Get("sendInitialEvents") != "":
		return answer(r, http.StatusBadRequest,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest"}`), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended.IsZero() {
		s.gaps = append(s.gaps, time.Since(s.ended))
	}
	response := answer(r, http.StatusOK, "")
	body, events := io.Pipe()
	response.Body = body
	time.AfterFunc(s.lasts, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = time.Now()
		_ = events.Close()
	})
	context.AfterFunc(r.Context(), func() { _ = events.Close() })
	go func() { _, _ = io.WriteString(events, metadataEvent("ADDED", "c", "1", `"uid":"u"`)+endOfList) }()
	return response, nil
}

// during returns the gaps between watches during a time. Watches that begin in this time last as long as given.
func (s *shortWatches) during(d, lasts time.Duration) []time.Duration {
	s.mu.Lock()
	s.gaps, s.lasts = nil, lasts
	s.mu.Unlock()
	<-time.After(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaps
}

// TestShortWatchesAreRare checks that a server that always ends watches soon gets few of them. A single short watch,
// for example when a server restarts, causes no long pause. Nor does a proxy that ends watches after 50 seconds.
func TestShortWatchesAreRare(t *testing.T) {
	t.Parallel()
	for name, isPlain := range map[string]bool{"streaming lists": false, "plain lists": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const longest = 3 * minPause / 2
				server := &shortWatches{isPlain: isPlain}
				watcher := startWatcher(t)
				watcher.Follow(key("r"), connectionTo(server.respond),
					Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
				if gaps := server.during(time.Hour, minPause+minPause/10); len(gaps) < 60 || len(gaps) > 180 ||
					gaps[0] > longest {
					t.Errorf("%d watches in an hour: %v", len(gaps), gaps)
				}
				server.during(5*time.Minute, 50*time.Second)
				if gaps := server.during(10*time.Minute, 50*time.Second); len(gaps) < 11 || slices.Max(gaps) > 0 {
					t.Errorf("gaps in ten minutes: %v", gaps)
				}
				// The first watch in this time began before.
				if gaps := server.during(time.Minute, 5*time.Second); len(gaps) < 2 || gaps[1] > longest {
					t.Errorf("gaps after the first short watch: %v", gaps)
				}
			})
		})
	}
}

// TestUnendingEventsAreRare checks that the pauses grow if all watches of a stream begin an event that never ends, with
// and without a list before. Each of these watches lasts longer than a minute.
func TestUnendingEventsAreRare(t *testing.T) {
	t.Parallel()
	withC := metadataEvent("ADDED", "c", "1", `"uid":"u"`)
	for name, list := range map[string]string{"without a list": "", "after a list": withC + endOfList} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var began []time.Time
				watcher := startWatcher(t)
				watcher.Follow(key("r"), connectionTo(func(r *http.Request) (*http.Response, error) {
					began = append(began, time.Now())
					response := answer(r, http.StatusOK, "")
					body, events := io.Pipe()
					response.Body = body
					context.AfterFunc(r.Context(), func() { _ = events.CloseWithError(r.Context().Err()) })
					text := `{"type":`
					if r.URL.Query().Get("sendInitialEvents") != "" {
						text = list + text
					}
					go func() { _, _ = io.WriteString(events, text) }()
					return response, nil
				}), Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
				<-time.After(time.Hour)
				synctest.Wait()
				last := began[len(began)-1].Sub(began[len(began)-2])
				if pause := last - 2*memoryWait; pause < maxPause/2 || pause > 2*maxPause {
					t.Errorf("the last of %d watches began %s after the end of the one before", len(began), pause)
				}
			})
		})
	}
}

// unendedLists is an API server that accepts streaming lists and never sends their end. It also answers plain lists.
type unendedLists struct {
	// respond answers a request for a streaming list.
	respond func(*http.Request) (*http.Response, error)
	// streaming and plain are the numbers of streaming lists and of plain lists.
	streaming, plain atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (s *unendedLists) RoundTrip(r *http.Request) (*http.Response, error) {
	switch query := r.URL.Query(); {
	case query.Get("watch") == "":
		s.plain.Add(1)
		return answer(r, http.StatusOK, listOf(`"continue":""`)), nil
	case query.Get("sendInitialEvents") != "":
		s.streaming.Add(1)
		return s.respond(r)
	default:
		return streamed(r, "", time.Hour, io.EOF), nil
	}
}

// streamed returns a response to a watch that has one text, and ends with an error after some time.
func streamed(r *http.Request, text string, lasts time.Duration, err error) *http.Response {
	response := answer(r, http.StatusOK, "")
	body, events := io.Pipe()
	response.Body = body
	context.AfterFunc(r.Context(), func() { _ = events.CloseWithError(r.Context().Err()) })
	go func() {
		_, _ = io.WriteString(events, text)
		if pause(r.Context(), lasts) {
			_ = events.CloseWithError(err)
		}
	}()
	return response
}

// TestStreamingListsWithoutEnd checks that objects are observed if an API server accepts streaming lists and never
// sends their end. There is one such list until the cluster is connected again, also if releases join the stream.
func TestStreamingListsWithoutEnd(t *testing.T) {
	t.Parallel()
	withC := metadataEvent("ADDED", "c", "1", `"uid":"u"`)
	for name, tc := range map[string]struct {
		text   string
		lasts  time.Duration
		err    error
		within time.Duration
	}{
		"an open watch":                {text: withC, lasts: time.Hour, within: beginTime},
		"an open watch without events": {lasts: time.Hour, within: beginTime},
		"a watch that ends":            {text: withC, err: io.EOF},
		"a watch that breaks later":    {text: withC, lasts: time.Minute, err: io.ErrUnexpectedEOF, within: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &unendedLists{respond: func(r *http.Request) (*http.Response, error) {
					return streamed(r, tc.text, tc.lasts, tc.err), nil
				}}
				watcher, conn := startWatcher(t), connectionTo(server.RoundTrip)
				// synced follows a release, and checks it after a time, and the lists of both forms until then.
				synced := func(name string, within time.Duration, streaming, plain int32) {
					t.Helper()
					watcher.Follow(key(name), conn, Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
					<-time.After(within)
					synctest.Wait()
					if snapshot, _ := watcher.Look(key(name)); !snapshot.Synced || snapshot.Err != nil {
						t.Fatalf("%s after %s: %+v", name, within, snapshot)
					}
					if got := [...]int32{server.streaming.Load(), server.plain.Load()}; got != [...]int32{streaming, plain} {
						t.Errorf("%s: streaming and plain lists: %v", name, got)
					}
				}
				synced("first", tc.within+2*minPause, 1, 1)
				synced("second", 2*rejoinTime, 1, 2)
				watcher.Disconnect("")
				synced("first", tc.within+2*minPause, 2, 3)
			})
		})
	}
}

// TestStreamingListsAreTriedAgain checks that HelmOp does not use plain lists if streaming lists fail because the API
// server does not respond, sends an error, does not end an event, or the connection breaks.
func TestStreamingListsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for name, respond := range map[string]func(*http.Request) (*http.Response, error){
		"no response": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"an error": func(r *http.Request) (*http.Response, error) {
			return streamed(r, `{"type":"ERROR","object":{"kind":"Status","code":500}}`, time.Hour, io.EOF), nil
		},
		"an event that never ends": func(r *http.Request) (*http.Response, error) {
			return streamed(r, `{"type":`, time.Hour, io.EOF), nil
		},
		"a broken connection": func(r *http.Request) (*http.Response, error) {
			return streamed(r, "", time.Second, io.ErrUnexpectedEOF), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &unendedLists{respond: respond}
				watcher := startWatcher(t)
				watcher.Follow(key("r"), connectionTo(server.RoundTrip),
					Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
				<-time.After(time.Hour)
				synctest.Wait()
				if streaming, plain := server.streaming.Load(), server.plain.Load(); streaming < 10 || plain > 0 {
					t.Errorf("%d streaming lists and %d plain lists", streaming, plain)
				}
			})
		})
	}
}
