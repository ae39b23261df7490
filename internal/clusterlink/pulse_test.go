// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// wire is a network without ports between the connections to an API server and the server. It works in a bubble of
// synctest.
type wire struct {
	accepted chan net.Conn
	closed   context.Context
	close    context.CancelFunc
	// down is true if connections are refused.
	down atomic.Bool

	mu sync.Mutex
	// open is closed while data can pass.
	open  chan struct{}
	conns []net.Conn
}

func newWire() *wire {
	w := &wire{accepted: make(chan net.Conn), open: make(chan struct{})}
	w.closed, w.close = context.WithCancel(context.Background())
	close(w.open)
	return w
}

func (w *wire) passes() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// hang stops all data: the network accepts data and does not deliver them.
func (w *wire) hang() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = make(chan struct{})
}

func (w *wire) resume() { close(w.open) }

// cut closes all connections and refuses new ones.
func (w *wire) cut() {
	w.down.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
}

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if w.down.Load() {
		return nil, errors.New("connection refused")
	}
	client, near := net.Pipe()
	far, server := net.Pipe()
	w.mu.Lock()
	w.conns = append(w.conns, client, server)
	w.mu.Unlock()
	go w.carry(near, far)
	go w.carry(far, near)
	select {
	case w.accepted <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// carry copies data in one direction.
func (w *wire) carry(from, to net.Conn) {
	kernel := make(chan []byte, 1000)
	go func() {
		defer close(kernel)
		for {
			buffer := make([]byte, 4<<10)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			kernel <- buffer[:n]
		}
	}()
	for data := range kernel {
		select {
		case <-w.passes():
		case <-w.closed.Done():
		}
		if _, err := to.Write(data); err != nil {
			_ = from.Close()
		}
	}
	_ = to.Close()
}

// Accept, Close and Addr implement net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case conn := <-w.accepted:
		return conn, nil
	case <-w.closed.Done():
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.close()
	return nil
}

func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 6443} }

// lively is a Cluster whose link has a real transport and a fake clock. Its API server counts probes. Its watches have
// no events, and a bookmark a minute if hasBookmarks is true.
type lively struct {
	*fleet
	wire   *wire
	probed atomic.Int32
	// stuck is true if the API server answers pings, but no requests.
	stuck        atomic.Bool
	hasBookmarks atomic.Bool
	status       atomic.Int32
}

// startLively connects the Cluster, and runs the controller.
func startLively(t *testing.T, isHTTP2 bool) *lively {
	t.Helper()
	l := &lively{fleet: newFleet(t), wire: newWire()}
	server := httptest.NewUnstartedServer(l)
	_ = server.Listener.Close()
	server.Listener, server.EnableHTTP2 = l.wire, isHTTP2
	server.StartTLS()
	l.provision(true, true)
	l.write("a")
	l.links.now, l.links.maxSilence, l.links.probe = time.Now, maxSilence, askVersion
	insecure := rest.TLSClientConfig{Insecure: true}
	settings, err := (&rest.Config{Host: "https://192.0.2.1:6443", TLSClientConfig: insecure}).TransportConfig()
	if err != nil {
		t.Fatal(err)
	}
	signs := newPulse()
	way, err := newConnections(settings, false, signs)
	if err != nil {
		t.Fatal(err)
	}
	way.steady.DialContext = signs.watched(l.wire.dial)
	newBusy := way.newBusy
	way.newBusy = func() *http.Transport {
		busy := newBusy()
		busy.DialContext = l.wire.dial
		return busy
	}
	config := &rest.Config{Host: "https://192.0.2.1:6443", Transport: way}
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	if err := l.Get(t.Context(), one, cluster); err != nil {
		t.Fatal(err)
	}
	l.links.links[one] = &link{origin: l.links.readKubeconfig(t.Context(), cluster).origin, made: config, config: config,
		client: &http.Client{Transport: way}, pulse: signs}
	ctx, cancel := context.WithCancel(t.Context())
	queue := priorityqueue.New[ctrl.Request]("lively")
	l.links.queue = queue
	queue.Add(ctrl.Request{NamespacedName: one})
	go func() { _ = l.links.sweep(ctx) }()
	go l.work(ctx, queue)
	time.Sleep(time.Second) // The link connects.
	t.Cleanup(func() {
		cancel()
		queue.ShutDown()
		way.CloseIdleConnections()
		l.wire.cut()
		server.Close()
	})
	return l
}

// work replaces the controller.
func (l *lively) work(ctx context.Context, queue priorityqueue.PriorityQueue[ctrl.Request]) {
	for {
		request, _, shutdown := queue.GetWithPriority()
		if shutdown {
			return
		}
		result, err := l.links.Reconcile(ctx, request)
		if err != nil {
			l.Error(err)
		}
		queue.Done(request)
		queue.AddWithOpts(priorityqueue.AddOpts{After: result.RequeueAfter, Priority: result.Priority}, request)
	}
}

// ServeHTTP implements http.Handler.
func (l *lively) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.stuck.Load() {
		<-r.Context().Done()
		return
	}
	if r.URL.Query().Get("watch") != "" {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		l.sendBookmarks(r.Context(), w)
		return
	}
	l.probed.Add(1)
	if status := l.status.Load(); status != 0 {
		w.WriteHeader(int(status))
	}
}

// sendBookmarks sends a bookmark a minute to a watch until its end.
func (l *lively) sendBookmarks(ctx context.Context, w http.ResponseWriter) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if l.hasBookmarks.Load() && !l.stuck.Load() {
				_, _ = io.WriteString(w, "{}")
				w.(http.Flusher).Flush()
			}
		}
	}
}

// request sends a request with the timeout of requests, and reads the response until its end.
func (l *lively) request(query string) {
	ctx, cancel := context.WithTimeout(l.Context(), configTimeout)
	defer cancel()
	if query == "watch=true" {
		ctx = l.Context()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://192.0.2.1:6443/api?"+query, nil)
	if err != nil {
		l.Error(err)
		return
	}
	resp, err := l.links.links[one].client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// until returns the time until the Cluster becomes unreachable, or reachable if unreachable is false.
func (l *lively) until(unreachable bool) time.Duration {
	l.Helper()
	for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
		if l.links.State(one).IsUnreachable() == unreachable {
			return time.Since(began)
		}
	}
	l.Fatalf("the Cluster does not become unreachable: %t", unreachable)
	return 0
}

// inBubble runs a test with a fake clock. The server that all tests share must start outside of the bubble.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Parallel()
	echo()
	synctest.Test(t, test)
}

// detection is the maximum time until an unreachable Cluster is detected. The documentation has the same value.
const detection = 27 * time.Second

func TestLivingAPIServerIsProbedRarely(t *testing.T) {
	for name, test := range map[string]struct{ isHTTP2, watches bool }{
		"with a watch":    {true, true},
		"without a watch": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := startLively(t, test.isHTTP2)
				if test.watches {
					go l.request("watch=true")
				}
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if probed := l.probed.Load(); probed < 17 || probed > 24 {
					t.Errorf("%d probes in 20 minutes", probed)
				}
				if state := l.links.State(one); state.Failures != 0 || len(l.wire.conns) != 2 {
					t.Errorf("%d failures, %d ends of connections", state.Failures, len(l.wire.conns))
				}
			})
		})
	}
}

// TestServedWatchNeedsFewProbes checks that bookmarks replace probes, and that probes begin again when the bookmarks
// end.
func TestServedWatchNeedsFewProbes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := startLively(t, true)
		l.hasBookmarks.Store(true)
		go l.request("watch=true")
		time.Sleep(2 * time.Minute)
		before := l.probed.Load()
		time.Sleep(time.Hour)
		if probed := l.probed.Load() - before; probed < 5 || probed > 7 {
			t.Errorf("%d probes in an hour with bookmarks", probed)
		}
		l.hasBookmarks.Store(false)
		before = l.probed.Load()
		time.Sleep(maxUnserved + 2*sweepInterval)
		synctest.Wait()
		if l.probed.Load() == before {
			t.Error("no probe after the end of the bookmarks")
		}
	})
}

// TestSilenceIsDetected checks that silence is detected at any time, with and without HTTP/2.
func TestSilenceIsDetected(t *testing.T) {
	for name, test := range map[string]struct {
		isHTTP2 bool
		fail    func(*wire)
	}{
		"hangs":           {true, (*wire).hang},
		"refuses":         {true, (*wire).cut},
		"hangs, HTTP/1":   {false, (*wire).hang},
		"refuses, HTTP/1": {false, (*wire).cut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for after := time.Minute; after < 2*time.Minute+10*time.Second; after += 7 * time.Second {
				echo()
				synctest.Test(t, func(t *testing.T) {
					l := startLively(t, test.isHTTP2)
					go l.request("watch=true")
					time.Sleep(after)
					test.fail(l.wire)
					// Each interval is up to a tenth shorter or longer.
					if took := l.until(true); took < confirmInterval*9/10 || took > detection {
						t.Errorf("after %s: it is detected after %s", after, took)
					}
				})
			}
		})
	}
}

func TestClusterIsReachableWhenItAnswersAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := startLively(t, true)
		time.Sleep(time.Minute)
		l.wire.hang()
		l.until(true)
		l.wire.resume()
		if took := l.until(false); took > probeInterval*12/10 {
			t.Errorf("it is detected after %s", took)
		}
		l.probed.Store(0)
		time.Sleep(10 * time.Minute)
		if probed := l.probed.Load(); probed > 12 {
			t.Errorf("%d probes in ten minutes", probed)
		}
	})
}

// TestPingsDoNotHideStuckServer has an API server that answers pings, but no requests. A proxy may do this, too.
func TestPingsDoNotHideStuckServer(t *testing.T) {
	t.Run("a request shows it", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			l := startLively(t, true)
			time.Sleep(90 * time.Second)
			l.stuck.Store(true)
			l.request("") // The request takes configTimeout.
			if took := l.until(true); took > detection {
				t.Errorf("it is detected after %s", took)
			}
		})
	})
	t.Run("the next probe shows it", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			l := startLively(t, true)
			time.Sleep(90 * time.Second)
			l.stuck.Store(true)
			if took := l.until(true); took > aliveInterval*11/10+2*probeTimeout {
				t.Errorf("it is detected after %s", took)
			}
		})
	})
	t.Run("the end of the bookmarks shows it", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			l := startLively(t, true)
			l.hasBookmarks.Store(true)
			go l.request("watch=true")
			time.Sleep(5 * time.Minute)
			l.stuck.Store(true)
			if took := l.until(true); took > 105*time.Second { // The documentation has the same value.
				t.Errorf("it is detected after %s", took)
			}
		})
	})
}

// TestRefusedRequestEndsSigns checks that rejected credentials are detected soon, although pings need no credentials.
func TestRefusedRequestEndsSigns(t *testing.T) {
	for status, refused := range map[int32]bool{
		http.StatusUnauthorized: true, http.StatusBadGateway: true, http.StatusServiceUnavailable: true,
		http.StatusGatewayTimeout: true, http.StatusOK: false, http.StatusForbidden: false, http.StatusNotFound: false,
		http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
	} {
		t.Run(http.StatusText(int(status)), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := startLively(t, true)
				time.Sleep(15 * time.Second)
				l.status.Store(status)
				l.request("")
				l.status.Store(0)
				before := l.probed.Load()
				time.Sleep(maxSilence + 2*sweepInterval)
				if probed := l.probed.Load() > before; probed != refused {
					t.Errorf("the API server is probed: %t", probed)
				}
				if l.links.links[one].pulse.failed.Load() {
					t.Error("a successful probe does not end it")
				}
			})
		})
	}
}

func TestCancelledRequestIsNoFailure(t *testing.T) {
	t.Parallel()
	signs := newPulse()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{nil, context.Canceled} {
		signs.check((&http.Request{}).WithContext(ctx), &http.Response{StatusCode: http.StatusOK}, err)
	}
	if signs.failed.Load() {
		t.Error("it counts")
	}
	signs.check((&http.Request{}).WithContext(t.Context()), nil, errors.New("no"))
	if !signs.failed.Load() {
		t.Error("an error does not count")
	}
	signs = newPulse()
	late, end := context.WithCancelCause(t.Context())
	end(errors.New("no response in time"))
	signs.check((&http.Request{}).WithContext(late), nil, late.Err())
	if !signs.failed.Load() {
		t.Error("the end of the deadline of a request does not count")
	}
}
