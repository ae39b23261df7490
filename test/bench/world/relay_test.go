// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestRelay forwards connections, hangs, refuses them, and forwards them again.
func TestRelay(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	relay, err := NewRelay(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Stop() })
	for _, step := range []struct {
		mode Mode
		want error
	}{{Pass, nil}, {Hang, os.ErrDeadlineExceeded}, {Refuse, errRefused}, {Hang, os.ErrDeadlineExceeded}, {Pass, nil}} {
		if err := relay.Set(step.mode); err != nil {
			t.Fatal(err)
		}
		wait := time.Minute
		if step.mode == Hang {
			wait = 300 * time.Millisecond
		}
		if got := ask(strings.TrimPrefix(relay.Address(), "https://"), wait); !errors.Is(got, step.want) {
			t.Errorf("mode %v: %v, not %v", step.mode, got, step.want)
		}
	}
}

// TestRelayClosesConnectionsAcceptedBeforeRefuse checks that a connection that was accepted just before the mode Refuse
// does not continue.
func TestRelayClosesConnectionsAcceptedBeforeRefuse(t *testing.T) {
	t.Parallel()
	relay, err := NewRelay(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	accepted, other := net.Pipe()
	t.Cleanup(func() { _, _ = accepted.Close(), other.Close() })
	for mode, want := range map[Mode]bool{Refuse: false, Hang: true, Pass: true} {
		if err := relay.Set(mode); err != nil {
			t.Fatal(err)
		}
		if got := relay.keep(accepted); got != want {
			t.Errorf("mode %v: %t", mode, got)
		}
	}
	if err := relay.Stop(); err != nil {
		t.Fatal(err)
	}
}

var errRefused = errors.New("refused")

// ask sends a text and waits for the echo.
func ask(address string, wait time.Duration) error {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return errRefused
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

func echo(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	return listener.Addr().String()
}
