// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestSelf measures this process.
func TestSelf(t *testing.T) {
	t.Parallel()
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine, this process may get no CPU time for a while.
	after := before
	for begun := time.Now(); after <= before && time.Since(begun) < 30*time.Second; {
		if after, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	peak := FollowPeak(os.Getpid())
	if after <= before {
		t.Errorf("CPU %v, then %v", before, after)
	}
	memory, err := Memory(os.Getpid())
	if err != nil || memory < 1<<20 {
		t.Errorf("memory %d, %v", memory, err)
	}
	if most := peak.Stop(); most != 0 && most < 1<<20 {
		t.Errorf("peak %d", most)
	}
}

// TestTrees measures a shell whose children use CPU time: one that has ended, and one that still runs.
func TestTrees(t *testing.T) {
	t.Parallel()
	const burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	shell := exec.CommandContext(t.Context(), "sh", "-c", "sh -c '"+burn+"'; (sleep 1000 & echo started; wait); true")
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	pid := shell.Process.Pid
	t.Cleanup(func() {
		all, _ := children(pid)
		for _, child := range all {
			grandchildren, _ := children(child)
			for _, process := range append(grandchildren, child) {
				_ = syscall.Kill(process, syscall.SIGKILL)
			}
		}
		_ = shell.Wait()
	})
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	alone, err := CPU(pid)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Trees(pid)
	if err != nil || got.CPU < alone+20*time.Millisecond || got.Memory <= memory {
		t.Errorf("the shell used %v and %d bytes, with its children %+v, %v", alone, memory, got, err)
	}
	if peak := FollowTreesPeak(pid).Stop(); peak <= memory {
		t.Errorf("the shell used %d bytes, with its children %d", memory, peak)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	metrics := Metrics(`# HELP up it is
up{cluster="a",zone="x"} 1
up{cluster="b",zone="x y"} 1
up{cluster="c",zone="z"} 2.5e+01
up_total 7
goroutines 12
`)
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"up", nil, 27}, {"up", []string{`cluster="b"`}, 1}, {"up", []string{`cluster="b"`, `zone="x"`}, 0},
		{"goroutines", nil, 12}, {"none", nil, 0},
	} {
		if got := metrics.Sum(test.name, test.labels...); got != test.want {
			t.Errorf("%s %v is %v, not %v", test.name, test.labels, got, test.want)
		}
	}
}
