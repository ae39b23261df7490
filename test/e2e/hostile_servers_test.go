// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// hostileBytes is the size of an answer of a hostile API server. It exceeds the memory of the manager of
// TestHostileServers.
const hostileBytes = 2 << 30

// misbehaviour describes the answers of a hostile API server.
type misbehaviour struct {
	// meets selects the requests with a hostile answer. All others are answered normally.
	meets func(req *http.Request) bool
	// beginning is sent once. again is then sent repeatedly, with a pause in between.
	beginning, again string
	pause            time.Duration
	// encoding is the Content-Encoding of the answer.
	encoding string
}

// misbehaviours are the misbehaviours of the Clusters of TestHostileServers, by Cluster name.
var misbehaviours = map[string]misbehaviour{
	"endless": {meets: isRead, beginning: `{"kind":"List","apiVersion":"v1","items":[`,
		again: strings.Repeat(`{},`, 1<<18)},
	"zipped": {meets: isRead, again: zippedSpaces(), encoding: "gzip"},
	"slow": {meets: isRead, beginning: `{"kind":"List","apiVersion":"v1","items":[`, again: `{},`,
		pause: 50 * time.Millisecond},
	"events": {
		meets:     func(req *http.Request) bool { return req.URL.Query().Get("watch") == "true" },
		beginning: `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"`,
		again:     strings.Repeat("x", 1<<20),
	},
}

// isRead reports whether a request reads objects. Requests that test the connection are answered normally.
func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet && req.URL.Path != "/version"
}

// answer sends until the client closes the connection.
func (m misbehaviour) answer(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if m.encoding != "" {
		w.Header().Set("Content-Encoding", m.encoding)
	}
	_, err := io.WriteString(w, m.beginning)
	for sent := 0; err == nil && sent < hostileBytes; sent += len(m.again) {
		if m.pause > 0 {
			select {
			case <-req.Context().Done():
				return
			case <-time.After(m.pause):
			}
		}
		if _, err = io.WriteString(w, m.again); err == nil {
			err = http.NewResponseController(w).Flush()
		}
	}
}

// zippedSpaces returns a member of a gzip stream: 16 MiB of spaces in 16 kB. JSON may begin so.
func zippedSpaces() string {
	var packed strings.Builder
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write(bytes.Repeat([]byte(" "), 16<<20))
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		panic(err) // A strings.Builder returns no errors.
	}
	return packed.String()
}

// hostileFront is a proxy in front of an API server that misbehaves while it is active.
type hostileFront struct {
	server   *httptest.Server
	isActive atomic.Bool
	// met counts the requests with a hostile answer.
	met atomic.Int64
}

// startHostileFront starts a front for the API server of a Cluster, and changes the Cluster's kubeconfig to the front.
func (w *workload) startHostileFront(misbehave misbehaviour) *hostileFront {
	s := w.scenario
	s.Helper()
	config := w.server.RESTConfig()
	target, err := url.Parse(config.Host)
	s.must(err)
	transport, err := rest.TransportFor(config)
	s.must(err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization")
		},
		Transport: transport, FlushInterval: -1,
		// Clients that close their watches are normal.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	front := &hostileFront{}
	front.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if !front.isActive.Load() || !misbehave.meets(req) {
			proxy.ServeHTTP(rw, req)
			return
		}
		front.met.Add(1)
		misbehave.answer(rw, req)
	}))
	front.server.Config.ErrorLog = proxy.ErrorLog
	// Close waits for running requests. The manager, which still runs, may have begun another watch.
	requests, end := context.WithCancel(context.WithoutCancel(s.Context()))
	front.server.Config.BaseContext = func(net.Listener) context.Context { return requests }
	front.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	front.server.EnableHTTP2 = true
	front.server.StartTLS()
	s.Cleanup(func() {
		end()
		front.server.CloseClientConnections()
		front.server.Close()
	})

	secret := s.secret(w.name + "-kubeconfig")
	s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(secret), secret))
	kubeconfig, err := clientcmd.Load(secret.Data["value"])
	s.must(err)
	for _, cluster := range kubeconfig.Clusters {
		cluster.Server = front.server.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: front.server.Certificate().Raw})
	}
	secret.Data["value"], err = clientcmd.Write(*kubeconfig)
	s.must(err)
	s.must(s.client.Update(s.Context(), secret))
	return front
}

// set makes the front misbehave, or not.
func (f *hostileFront) set(active bool) {
	f.isActive.Store(active)
	f.server.CloseClientConnections()
}

// TestHostileServers has API servers that all send more than the manager's memory at the same time: lists, compressed
// lists, events, and endless lists. The manager stays within its part of the limit and serves another tenant meanwhile.
// It serves these clusters, too, when their API servers answer normally again.
func TestHostileServers(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{ManagerArgs: []string{"--memory-limit=" + memoryLimit},
		SyncPeriod: 20 * time.Second})
	s, other := newScenarioIn(t, env), newScenarioIn(t, env)
	podCIDRs := []string{"10.1.0.0/16"}
	options := []testbed.ClusterOptions{{Name: "endless", PodCIDRs: podCIDRs}}
	for name := range misbehaviours {
		if name != "endless" {
			options = append(options, testbed.ClusterOptions{Name: name, Host: "endless", PodCIDRs: podCIDRs})
		}
	}
	hostile := s.clusters(options...)
	two := other.clusters(testbed.ClusterOptions{Name: "two", PodCIDRs: podCIDRs})[0]
	fronts := map[string]*hostileFront{}
	for _, w := range hostile {
		fronts[w.name] = w.startHostileFront(misbehaviours[w.name])
	}
	helmOp := s.newHelmOp("hello", forAll, func(h *addonsv1.HelmOp) {
		// The Clusters share one API server.
		h.Spec.Release.Namespace = "hello-{{ .Cluster.metadata.name }}"
		// HelmOp only watches releases with drift detection.
		h.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	})
	s.create(helmOp)
	s.eventually(helmOp, ready(len(hostile)))
	neighbour := newNeighbour(two)
	memory := s.followMemory()

	for _, front := range fronts {
		front.set(true)
	}
	s.setGreeting(helmOp, "hostile")
	for range 3 {
		neighbour.expectServed(t)
	}
	for name, front := range fronts {
		s.Eventually(front.met.Load).Should(gomega.BeNumerically(">", 0), "requests to which %s misbehaved", name)
		if name != "events" {
			s.child(helmOp, name, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
				expectStatus(g, child, addonsv1.ReadyCondition, metav1.ConditionFalse)
			})
		}
	}
	memory.expectBounded(s)

	for _, front := range fronts {
		front.set(false)
	}
	s.eventually(helmOp, ready(len(hostile)))
	s.Expect(memory.manager.Running()).To(gomega.BeTrue(), "the first manager still runs")
}
