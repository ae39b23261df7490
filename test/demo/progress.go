// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints one line for each event, with the time since the start of the demo.
type progress struct {
	out   io.Writer
	began time.Time
	mu    sync.Mutex
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, began: time.Now()}
}

// say prints one line with the time.
func (p *progress) say(format string, args ...any) {
	p.print("%6.1fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

// print prints text unchanged.
func (p *progress) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A closed terminal must not keep the demo from stopping its programs.
	_, _ = fmt.Fprintf(p.out, format, args...)
}

// timed runs do. It prints what was done and how long it took.
func (p *progress) timed(what string, do func() error) error {
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	p.say("%s (%s)", what, seconds(time.Since(began)))
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// lines returns a writer that prints each line with the time.
func (p *progress) lines() io.Writer { return &lineWriter{say: p.say} }

type lineWriter struct {
	say    func(format string, args ...any)
	mu     sync.Mutex
	buffer []byte
}

func (w *lineWriter) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffer = append(w.buffer, data...)
	for {
		line, rest, found := bytes.Cut(w.buffer, []byte("\n"))
		if !found {
			return len(data), nil
		}
		w.say("%s", line)
		w.buffer = rest
	}
}
