/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// relay passes connections on to an API server until it is frozen: then it accepts connections, and nothing more is heard
// of them or of those that were open.
type relay struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	thawed chan struct{} // Closed while it is not frozen.
	open   map[net.Conn]struct{}
}

func newRelay(target string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, target: target, thawed: make(chan struct{}), open: map[net.Conn]struct{}{}}
	close(r.thawed)
	go r.serve()
	return r, nil
}

func (r *relay) serve() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return // It was stopped.
		}
		go r.pass(conn)
	}
}

func (r *relay) pass(conn net.Conn) {
	defer r.close(conn)
	r.keep(conn)
	<-r.gate()
	upstream, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.target)
	if err != nil {
		return
	}
	defer r.close(upstream)
	r.keep(upstream)
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{upstream, conn}, {conn, upstream}} {
		go func() {
			_, _ = io.Copy(way[0], gated{way[1], r})
			ended <- struct{}{}
		}()
	}
	<-ended
}

// gated is a reader that hands out nothing while its relay is frozen.
type gated struct {
	io.Reader
	relay *relay
}

// Read implements io.Reader.
func (g gated) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	<-g.relay.gate()
	return n, err
}

func (r *relay) gate() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.thawed
}

func (r *relay) keep(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[conn] = struct{}{}
}

func (r *relay) close(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
	_ = conn.Close()
}

// freeze begins or ends the silence. What was held back in open connections is lost when it ends: they are closed.
func (r *relay) freeze(frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if frozen {
		r.thawed = make(chan struct{})
		return
	}
	for conn := range r.open {
		_ = conn.Close()
	}
	close(r.thawed)
}

func (r *relay) address() string { return fmt.Sprintf("https://%s", r.listener.Addr()) }

func (r *relay) stop() error {
	err := r.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
