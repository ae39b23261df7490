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

// Mode is how a Relay handles connections.
type Mode int

const (
	// Pass forwards connections.
	Pass Mode = iota
	// Hang accepts connections but forwards nothing, not even on open connections.
	Hang
	// Refuse closes open connections, and refuses new ones.
	Refuse
)

// Relay forwards connections to an API server, hangs, or refuses them.
type Relay struct {
	address, target string

	mu        sync.Mutex
	listener  net.Listener  // Nil in the mode Refuse.
	unblocked chan struct{} // Closed unless the mode is Hang.
	open      map[net.Conn]struct{}
}

// NewRelay returns a relay to an address in the mode Pass.
func NewRelay(target string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{
		address: listener.Addr().String(), target: target, listener: listener, unblocked: make(chan struct{}),
		open: map[net.Conn]struct{}{},
	}
	close(r.unblocked)
	go r.serve(listener)
	return r, nil
}

// Address returns the URL of the relay.
func (r *Relay) Address() string { return fmt.Sprintf("https://%s", r.address) }

func (r *Relay) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // The listener was closed.
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

// gated is a reader that returns nothing while its relay hangs.
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
	return r.unblocked
}

// keep reports whether a connection may continue: the mode may have changed to Refuse since the connection was
// accepted.
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

// Set changes the mode. At the end of the mode Hang, data held back in open connections is lost: the connections are
// closed.
func (r *Relay) Set(mode Mode) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	hangs := !isClosed(r.unblocked)
	if mode == Hang && !hangs {
		r.unblocked = make(chan struct{})
	}
	if mode != Hang && hangs || mode == Refuse {
		for conn := range r.open {
			_ = conn.Close()
		}
	}
	if mode != Hang && hangs {
		close(r.unblocked)
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

// listen starts to accept connections, or to refuse them.
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

// Stop closes all connections.
func (r *Relay) Stop() error { return r.Set(Refuse) }
