// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// hangingServer accepts requests and sends only the headers of a response, or no response.
func hangingServer(t *testing.T, headers bool) *httptest.Server {
	t.Helper()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headers {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); server.Close() })
	return server
}

func read(ctx context.Context, t *testing.T, transport http.RoundTripper, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func TestTransportDeadlines(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]bool{"nothing": false, "headers only": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := hangingServer(t, headers)
			short := &boundedTransport{base: http.DefaultTransport, parent: t.Context(), timeout: 20 * time.Millisecond}
			if err := read(t.Context(), t, short, server.URL); !errors.Is(err, helmerr.ErrRequestDeadline) ||
				!errors.Is(helmerr.Classify(err), helmerr.ErrUnreachable) {
				t.Errorf("request: %v", err)
			}
			watchCtx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := read(watchCtx, t, short, server.URL+"?watch=true"); !errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, helmerr.ErrRequestDeadline) {
				t.Errorf("watch: %v", err)
			}
			parent, cancelParent := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancelParent()
			bound := &boundedTransport{base: http.DefaultTransport, timeout: time.Minute, parent: parent}
			if err := read(t.Context(), t, bound, server.URL+"?watch=true"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("watch beyond its action: %v", err)
			}
		})
	}
}

// TestWatchHasNoContextOfItsOwn checks that only requests that the transport may end have an additional context.
func TestWatchHasNoContextOfItsOwn(t *testing.T) {
	t.Parallel()
	bounded, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := hangingServer(t, true)
	for name, tc := range map[string]struct {
		parent context.Context
		query  string
		want   bool
	}{
		"a watch":                 {context.Background(), "?watch=true", false},
		"a watch with an action":  {bounded, "?watch=true", true},
		"a read":                  {context.Background(), "", true},
		"a read during an action": {bounded, "", true},
	} {
		caller, cancel := context.WithCancel(t.Context())
		transport := &boundedTransport{parent: tc.parent, timeout: time.Minute,
			base: roundTripper(func(r *http.Request) (*http.Response, error) {
				if got := r.Context() != caller; got != tc.want {
					t.Errorf("%s: an own context: %t", name, got)
				}
				cancel()
				return http.DefaultTransport.RoundTrip(r)
			})}
		if err := read(caller, t, transport, server.URL+tc.query); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErrorOfWatchHasDeadline checks that the body of an error response to a watch must arrive in time, also if the
// watch has no context of its own.
func TestErrorOfWatchHasDeadline(t *testing.T) {
	t.Parallel()
	for name, isHTTP2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		server.EnableHTTP2 = isHTTP2
		server.StartTLS()
		t.Cleanup(server.Close)
		transport := &boundedTransport{base: server.Client().Transport, parent: context.Background(),
			timeout: 20 * time.Millisecond}
		if err := read(t.Context(), t, transport, server.URL+"?watch=true"); !errors.Is(err, helmerr.ErrRequestDeadline) {
			t.Errorf("%s: the deadline: %v", name, err)
		}
		transport.timeout = time.Minute
		caller, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := read(caller, t, transport, server.URL+"?watch=true"); !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, helmerr.ErrRequestDeadline) {
			t.Errorf("%s: the end of the caller: %v", name, err)
		}
	}
}

// TestOpenWatchKeepsNoRequest checks that an open watch keeps neither its request nor the headers of its response.
func TestOpenWatchKeepsNoRequest(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "an event")
		w.(http.Flusher).Flush()
		<-ended
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	var original *http.Response
	transport := &boundedTransport{parent: t.Context(), base: roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := server.Client().Transport.RoundTrip(r)
		original = resp
		return resp, err
	})}
	body, address := openWatch(t, transport, server.URL+"?watch=true")
	if original.Proto != "HTTP/2.0" || original.Header != nil {
		t.Errorf("got %s with the headers %v", original.Proto, original.Header)
	}
	for range 2 { // The first collection may begin while the request is still sent.
		runtime.GC()
	}
	if kept := address.Value(); kept != nil {
		t.Errorf("the request for %s is kept", kept)
	}
	event := make([]byte, len("an event"))
	if _, err := io.ReadFull(body, event); err != nil || string(event) != "an event" {
		t.Errorf("got %q, %v", event, err)
	}
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// openWatch opens a watch. It returns its body, and a weak pointer to the address in the request.
func openWatch(t *testing.T, transport http.RoundTripper, address string) (io.Reader, weak.Pointer[url.URL]) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req) //nolint:bodyclose // The cleanup closes it, without the response.
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Header) == 0 {
		t.Error("the response has no headers")
	}
	body := resp.Body
	t.Cleanup(func() { _ = body.Close() })
	return body, weak.Make(req.URL)
}

func TestTransportLimitsResponses(t *testing.T) {
	t.Parallel()
	body := &boundedBody{body: io.NopCloser(nil), from: strings.NewReader("too much"), remaining: 4,
		release: func() {}, cause: func(err error) error { return err }}
	if _, err := io.ReadAll(body); !errors.Is(err, errResponseTooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestTransportMemoryBudget checks that all responses share one memory budget, whether they are large or have many
// values, and that one cluster leaves memory for others.
func TestTransportMemoryBudget(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := map[string]string{"/small": "{}", "/dense": "{" + strings.Repeat("[{},", 1<<20),
			"/large":     "{" + strings.Repeat("x", 1<<20),
			"/announced": "{" + strings.Repeat("x", 1<<20), "/held": "{" + strings.Repeat("x", 1<<20)}[r.URL.Path]
		if r.URL.Path == "/announced" {
			w.Header().Set("Content-Length", strconv.Itoa(maxResponseBytes))
		}
		if _, err := io.WriteString(w, text); err != nil {
			return // The client has cancelled the request.
		}
		if r.URL.Path == "/held" {
			w.(http.Flusher).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(server.Close)
	budget := bytebudget.New(16 << 20)
	of := func(cluster string, timeout time.Duration) *boundedTransport {
		return &boundedTransport{base: http.DefaultTransport, parent: t.Context(), timeout: timeout, bytes: budget,
			owner: ownerOf(cluster)}
	}
	held := make(chan error, 1)
	go func() { held <- read(t.Context(), t, of("a/held", time.Minute), server.URL+"/held") }()
	g := gomega.NewWithT(t)
	g.Eventually(budget.InUse).Should(gomega.BeNumerically(">=", 3<<20))
	for _, test := range []struct {
		cluster, path string
		want          error
	}{
		{"a/held", "/small", nil},
		{"b/one", "/large", nil},
		{"b/two", "/dense", errTooMuchToDecode},
		{"c/one", "/announced", errTooMuchToDecode},
	} {
		if err := read(t.Context(), t, of(test.cluster, time.Minute), server.URL+test.path); !errors.Is(err, test.want) {
			t.Errorf("%s of %s: %v", test.path, test.cluster, err)
		}
	}
	// Two responses are too much for the share of a cluster: the second waits and fails after its deadline.
	// On a busy machine, a short deadline passes before the response arrives.
	var err error
	for wait := 2 * time.Second; !errors.Is(err, helmerr.ErrNoMemory) && wait < time.Minute; wait *= 4 {
		err = read(t.Context(), t, of("a/held", wait), server.URL+"/large")
	}
	if !errors.Is(err, helmerr.ErrNoMemory) || !errors.Is(helmerr.Classify(err), helmerr.ErrUnreachable) {
		t.Errorf("a second answer: %v", err)
	}
	close(release)
	g.Eventually(held).Should(gomega.Receive(gomega.BeNil()))
	g.Expect(read(t.Context(), t, of("a/held", time.Minute), server.URL+"/large")).To(gomega.Succeed())
	g.Eventually(budget.InUse).Should(gomega.BeZero())
}

// TestRetryAfterIsLimited checks that no client of a cluster waits as long as its server demands.
func TestRetryAfterIsLimited(t *testing.T) {
	t.Parallel()
	var demanded, status atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", demanded.Load().(string))
		w.WriteHeader(status.Load().(int))
	}))
	t.Cleanup(server.Close)
	kept, err := NewCluster("", &rest.Config{Host: server.URL}, NewSharedState(DefaultMemory()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kept.close)
	user, err := kept.as("user")
	if err != nil {
		t.Fatal(err)
	}
	transports := map[string]http.RoundTripper{
		"clients": kept.Own.RestConfig(t.Context()).Transport, "user": user.RestConfig(t.Context()).Transport,
		"action": kept.Own.ActionConfig(t.Context()).Transport, "plan": kept.Own.PlanConfig(t.Context()).Transport,
		"discovery": kept.Kinds.host.Transport, "kinds": kept.Kinds.tags,
	}
	for name, transport := range transports {
		for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			for _, query := range []string{"", "?watch=true"} {
				for of, want := range map[string]string{"1000000000": "2", "2": "2", "1": "1", "soon": "soon", "": ""} {
					demanded.Store(of)
					status.Store(code)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/pods"+query, nil)
					if err != nil {
						t.Fatal(err)
					}
					resp, err := transport.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					if got := resp.Header.Get("Retry-After"); got != want {
						t.Errorf("%s%s: %d with Retry-After %q is handed on with %q", name, query, code, of, got)
					}
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}

func TestTransportReportsKindsChange(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refused") {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(server.Close)
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, test := range []struct {
		method, path string
		want         bool
	}{
		{http.MethodPost, crds, true},
		{http.MethodDelete, crds + "/a", true},
		{http.MethodPut, "/apis/apiregistration.k8s.io/v1/apiservices/a", true},
		{http.MethodGet, crds, false},
		{http.MethodPost, crds + "/refused", false},
		{http.MethodPost, "/api/v1/namespaces/a/configmaps", false},
	} {
		changed := false
		transport := &boundedTransport{base: http.DefaultTransport, parent: t.Context(), timeout: time.Minute,
			kindsChanged: func() { changed = true }}
		req, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if changed != test.want {
			t.Errorf("%s %s: changed %t", test.method, test.path, changed)
		}
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	get := func(cs *Pool, key string, config *rest.Config) *Connection {
		conn, err := cs.Get(model.Target{Key: key, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	memory := DefaultMemory()
	memory.Clusters = 2
	cs := NewPool(memory)
	config := &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "a", Timeout: time.Second}
	a := get(cs, "a", config)
	if get(cs, "a", rest.CopyConfig(config)) != a {
		t.Error("an equal config created another connection")
	}
	rotated := rest.CopyConfig(config)
	rotated.BearerToken = "b"
	if get(cs, "a", rotated) == a {
		t.Error("a rotated credential did not create another connection")
	}
	a = get(cs, "a", config)
	b := get(cs, "b", config)
	get(cs, "a", config)
	get(cs, "c", config)
	if get(cs, "a", config) != a {
		t.Error("a recently used connection was dropped")
	}
	if get(cs, "b", config) == b {
		t.Error("the least recently used connection was not dropped")
	}
	cs.Forget("b")
	cs.Forget("unknown")
	if cs.clusters.Len() != 1 {
		t.Errorf("%d connections are kept", cs.clusters.Len())
	}
	if config.Timeout != time.Second || config.UserAgent != "" {
		t.Error("the caller's config was changed")
	}
}
