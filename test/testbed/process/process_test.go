// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func startShell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// waitForLog waits until the log contains text.
func waitForLog(t *testing.T, p *Process, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := p.WaitHealthy(ctx, func(context.Context) error {
		data, err := os.ReadFile(p.LogFile())
		if err != nil {
			return err
		}
		if !strings.Contains(string(data), text) {
			return os.ErrNotExist
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStopEndsTheProcessGroup(t *testing.T) {
	t.Parallel()
	p := startShell(t, "sleep 600 & echo child $!; wait")
	waitForLog(t, p, "child")
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Running() {
		t.Error("the process still runs")
	}
	if err := p.Unexpected(); err != nil {
		t.Errorf("a stop is reported as unexpected: %v", err)
	}
	if err := syscall.Kill(-p.PID(), 0); err == nil {
		// For a moment, the child may be a zombie of the init process.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for syscall.Kill(-p.PID(), 0) == nil {
			select {
			case <-ctx.Done():
				t.Fatal("a child of the stopped process still runs")
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

func TestStopKillsProcessThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	p := startShell(t, "trap '' TERM; echo ready; while :; do sleep 1; done")
	waitForLog(t, p, "ready")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if p.Running() {
		t.Error("the process still runs")
	}
}

func TestStopEndsAHungProcess(t *testing.T) {
	t.Parallel()
	// The shell must not start a program after it is ready: while it waits for the start of a program that is stopped
	// already, the kernel does not stop the shell.
	p := startShell(t, "sleep 600 & echo ready; wait")
	waitForLog(t, p, "ready")
	if err := p.Hang(); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(started); took > stopGrace/2 {
		t.Errorf("stopping a hung process took %s", took)
	}
}

// TestHangReturnsWhenAllThreadsStopped stops a busy program repeatedly, because a signal reaches threads on other cores
// with a delay.
func TestHangReturnsWhenAllThreadsStopped(t *testing.T) {
	t.Parallel()
	p := startShell(t, "echo ready; while :; do :; done")
	waitForLog(t, p, "ready")
	for range 200 {
		if err := p.Hang(); err != nil {
			t.Fatal(err)
		}
		if !isStopped(p.PID()) {
			t.Fatal("the program still runs")
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnexpectedQuotesTheLog(t *testing.T) {
	t.Parallel()
	p := startShell(t, "echo cannot listen; exit 3")
	if err := p.Wait(t.Context()); err == nil {
		t.Fatal("an exit code of 3 is no error")
	}
	err := p.Unexpected()
	if err == nil || !strings.Contains(err.Error(), "cannot listen") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want the exit status and the end of the log", err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] {
			t.Fatalf("port %d was returned twice", p)
		}
		seen[p] = true
		if p < firstPort || p >= lastPort {
			t.Errorf("port %d is outside of the range", p)
		}
	}
}
