// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Mode is what a Relay does with connections.
type Mode int

const (
	// Pass passes them on.
	Pass Mode = iota
	// Hang accepts them, and nothing more is heard of them or of those that were open.
	Hang
	// Refuse ends them, and refuses new ones.
	Refuse
)

// Relay passes connections on to an API server, or does what is worse.
type Relay struct {
	address, target string

	mu       sync.Mutex
	listener net.Listener  // Nil while it refuses.
	thawed   chan struct{} // Closed while it does not hang.
	open     map[net.Conn]struct{}
}

// NewRelay returns a relay to an address that passes connections on.
func NewRelay(target string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{
		address: listener.Addr().String(), target: target, listener: listener, thawed: make(chan struct{}),
		open: map[net.Conn]struct{}{},
	}
	close(r.thawed)
	go r.serve(listener)
	return r, nil
}

// Address is its URL.
func (r *Relay) Address() string { return fmt.Sprintf("https://%s", r.address) }

func (r *Relay) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // It was closed.
		}
		go r.pass(conn)
	}
}

func (r *Relay) pass(conn net.Conn) {
	defer r.close(conn)
	if !r.keep(conn) {
		return
	}
	<-r.gate()
	upstream, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.target)
	if err != nil {
		return
	}
	defer r.close(upstream)
	if !r.keep(upstream) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{upstream, conn}, {conn, upstream}} {
		go func() {
			_, _ = io.Copy(way[0], gated{way[1], r})
			ended <- struct{}{}
		}()
	}
	<-ended
}

// gated is a reader that hands out nothing while its relay hangs.
type gated struct {
	io.Reader
	relay *Relay
}

// Read implements io.Reader.
func (g gated) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	<-g.relay.gate()
	return n, err
}

func (r *Relay) gate() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.thawed
}

// keep tells whether a connection may go on: one that was accepted a moment ago may be refused by now.
func (r *Relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener == nil {
		return false
	}
	r.open[conn] = struct{}{}
	return true
}

func (r *Relay) close(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
	_ = conn.Close()
}

// Set changes the mode. What was held back in open connections is lost when it hangs no more: they are closed.
func (r *Relay) Set(mode Mode) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	hangs := !isClosed(r.thawed)
	if mode == Hang && !hangs {
		r.thawed = make(chan struct{})
	}
	if mode != Hang && hangs || mode == Refuse {
		for conn := range r.open {
			_ = conn.Close()
		}
	}
	if mode != Hang && hangs {
		close(r.thawed)
	}
	return r.listen(mode != Refuse)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// listen begins to accept connections, or to refuse them.
func (r *Relay) listen(on bool) error {
	switch {
	case on && r.listener == nil:
		listener, err := net.Listen("tcp", r.address)
		if err != nil {
			return err
		}
		r.listener = listener
		go r.serve(listener)
	case !on && r.listener != nil:
		err := r.listener.Close()
		r.listener = nil
		if !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
	return nil
}

// Stop ends all connections.
func (r *Relay) Stop() error { return r.Set(Refuse) }
