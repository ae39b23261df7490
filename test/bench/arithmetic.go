// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// arithmeticPackages have Go benchmarks of computations for a HelmOp with very many Clusters. arithmeticBenchmarks are
// the names of these benchmarks. Benchmarks of dependencies have a thousand Clusters and five HelmOps, the others ten
// thousand Clusters.
var arithmeticPackages = []string{"./internal/rollout", "./controllers"}

const arithmeticBenchmarks = "^Benchmark(Plan|PlanIdle|Summarize|CheckDependencies)$"

// arithmetic runs Go benchmarks and reports those with ten thousand Clusters.
func arithmetic(ctx context.Context, b *bench) error {
	root, err := binaries.RepositoryRoot()
	if err != nil {
		return err
	}
	before := len(b.report.Figures)
	for _, pkg := range arithmeticPackages {
		// Vetting is for tests.
		args := []string{"test", "-vet=off", "-trimpath", "-run", "^$", "-bench", arithmeticBenchmarks, "-benchmem",
			"-benchtime", "20x"}
		if b.profiles != "" {
			args = append(args, "-o", filepath.Join(b.profiles, path.Base(pkg)+".test"))
			for flag, kind := range map[string]string{"-cpuprofile": "cpu", "-memprofile": "heap", "-mutexprofile": "mutex"} {
				args = append(args, flag, filepath.Join(b.profiles, "arithmetic-"+path.Base(pkg)+"."+kind+".pprof"))
			}
		}
		cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
		cmd.Dir, cmd.Stderr, cmd.WaitDelay = root, os.Stderr, 5*time.Second
		// With the same settings as the manager's build, packages are not compiled again.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for line := range bytes.Lines(out) {
			b.addBenchmark(string(line))
		}
	}
	return missingBenchmark(b.report.Figures[before:])
}

// missingBenchmark returns an error if a benchmark of arithmeticBenchmarks was not run.
func missingBenchmark(figures []report.Figure) error {
	for _, name := range []string{"Plan", "PlanIdle", "Summarize", "CheckDependencies"} {
		if !slices.ContainsFunc(figures,
			func(f report.Figure) bool { return f.Phase == name || strings.HasPrefix(f.Phase, name+"/") }) {
			return fmt.Errorf("there is no figure of Benchmark%s: it is no longer in arithmeticPackages", name)
		}
	}
	return nil
}

// addBenchmark adds the figures of a line of "go test -bench". It ignores smaller fleets.
func (b *bench) addBenchmark(line string) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		name = name[:at] // Without the number of CPUs.
	}
	if strings.Contains(name, "/clusters=") && !strings.HasSuffix(name, "=10000") {
		return
	}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return
		}
		switch fields[i+1] {
		case "ns/op":
			b.report.Add("arithmetic", name, "time", "ms", value/1e6)
		case "B/op":
			b.report.Add("arithmetic", name, "memory", "kB", value/1000)
		case "allocs/op":
			b.report.Add("arithmetic", name, "allocations", "", value)
		}
	}
}
