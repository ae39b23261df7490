// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"
)

const (
	// streamInterval is the shortest time between two updates of a page. During a rollout, the fleet changes many times a
	// second.
	streamInterval = time.Second

	// streamBeat is how often a stream without changes sends a comment. The comment shows whether the connection is
	// closed. The times on the page are updated equally often.
	streamBeat = 30 * time.Second

	// streamWait is how long a stream waits for a free place: a browser opens the stream of the next page before it closes
	// the old one.
	streamWait = 2 * time.Second

	// streamWrite is the timeout for sending an event.
	streamWrite = 10 * time.Second
)

// stream serves live updates.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	within(w, r, s.streams, streamWait, "Too many pages with live updates are open. Close some of them.",
		func() { s.update(w, r) })
}

// update sends an event "change" after each change of the fleet. It sends an event "say" when the text for screen
// readers has changed.
func (s *server) update(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(text string) error {
		// Not every server supports deadlines. Without one, a stream ends with its connection.
		_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return control.Flush()
	}
	// shown is the change whose fleet the page shows.
	shown, _ := s.Source.Changes().Last()
	said := ""
	if f, err := s.fleet(r.Context()); err == nil {
		shown, said = f.change, f.say()
	}
	if send("retry: 2000\n: the fleet is followed\n\n") != nil {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(streamBeat):
		case <-s.Source.Changes().Since(shown):
			if !sleep(r.Context(), s.untilDue()) {
				return
			}
		}
		shown, _ = s.Source.Changes().Last()
		text := "event: change\ndata: \n\n"
		if f, err := s.fleet(r.Context()); err == nil {
			shown = f.change
			if now := f.say(); now != said {
				said = now
				text += "event: say\ndata: " + template.HTMLEscapeString(said) + "\n\n"
			}
		}
		if send(text) != nil || !sleep(r.Context(), streamInterval) {
			return
		}
	}
}

// sleep waits for a time. It returns false if the context ends first.
func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
