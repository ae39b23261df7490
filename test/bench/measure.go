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
	"io"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// meter counts the requests that pass through its transports.
type meter struct {
	mu    sync.Mutex
	calls map[string]int
	bytes int64
}

// wrap returns a transport that counts.
func (m *meter) wrap(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		m.mu.Lock()
		m.calls[req.Method]++
		m.bytes += max(req.ContentLength, 0)
		m.mu.Unlock()
		resp, err := base.RoundTrip(req)
		if err == nil {
			resp.Body = &countedBody{ReadCloser: resp.Body, meter: m}
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type countedBody struct {
	io.ReadCloser
	meter *meter
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.mu.Lock()
	b.meter.bytes += int64(n)
	b.meter.mu.Unlock()
	return n, err
}

// take returns what was counted, and begins anew.
func (m *meter) take() (calls map[string]int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls, bytes = m.calls, m.bytes
	m.calls, m.bytes = map[string]int{}, 0
	return calls, bytes
}

// cost is what a phase took, all releases together.
type cost struct {
	Releases int            `json:"releases"`
	Wall     time.Duration  `json:"wallNanoseconds"`
	CPU      time.Duration  `json:"cpuNanoseconds"`
	Requests int            `json:"requests"`
	Verbs    map[string]int `json:"verbs"`
	Bytes    int64          `json:"bytes"`
}

func (c *cost) add(more cost) {
	c.Releases += more.Releases
	c.Wall += more.Wall
	c.CPU += more.CPU
	c.Requests += more.Requests
	c.Bytes += more.Bytes
	if c.Verbs == nil {
		c.Verbs = map[string]int{}
	}
	for verb, n := range more.Verbs {
		c.Verbs[verb] += n
	}
}

// measure runs a phase and returns what it took. CPU is that of this process: API servers are processes of their own.
func (m *meter) measure(releases int, phase func() error) (cost, error) {
	// Garbage of what ran before is not this phase's.
	runtime.GC()
	m.take()
	cpu, err := processCPU()
	if err != nil {
		return cost{}, err
	}
	begun := time.Now()
	if err := phase(); err != nil {
		return cost{}, err
	}
	wall := time.Since(begun)
	cpuAfter, err := processCPU()
	if err != nil {
		return cost{}, err
	}
	calls, bytes := m.take()
	measured := cost{Releases: releases, Wall: wall, CPU: cpuAfter - cpu, Verbs: calls, Bytes: bytes}
	for _, n := range calls {
		measured.Requests += n
	}
	return measured, nil
}

func processCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
