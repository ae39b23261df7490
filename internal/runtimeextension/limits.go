// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// maxBody is the largest body of a call. The largest part of a call is a Cluster, which etcd limits to 1.5 MiB.
	maxBody = 2 << 20

	// maxCalls is the largest number of calls that are read and answered at the same time. It limits the memory for their
	// bodies.
	maxCalls = 8

	// readTimeout is the timeout for reading a body. It is shorter than the timeout of Cluster API for a call.
	readTimeout = 2 * time.Second
)

// limitedServer is a server that limits the memory and the time that its clients can use. Without a client certificate,
// each client that reaches the port can call.
type limitedServer struct {
	webhook.Server

	calls chan struct{}
}

func newLimitedServer(server webhook.Server) *limitedServer {
	return &limitedServer{Server: server, calls: make(chan struct{}, maxCalls)}
}

// Register registers a handler with the limits.
func (s *limitedServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(handler, w, r)
	}))
}

// serve waits for a free place before it reads the body.
func (s *limitedServer) serve(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > maxBody {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	busy := time.NewTimer(readTimeout)
	defer busy.Stop()
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	case <-busy.C:
		http.Error(w, "too many calls", http.StatusServiceUnavailable)
		return
	case <-r.Context().Done():
		return
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
		http.Error(w, "cannot limit the time to read the body", http.StatusInternalServerError)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	handler.ServeHTTP(w, r)
}
