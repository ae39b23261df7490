// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testrun runs tests and reports the progress: the number of passed tests of all, the running tests, and at the
// end the slowest tests. For each failure it prints the test, the end of its output and the path of the complete
// output.
//
//	testrun [-jobs N] [-logs DIR] -- -race ./internal/... -- -count=1 -v ./test/e2e
//
// Each group of arguments after a "--" is one `go test`. If a group begins with NAME=VALUE words, they are added to its
// environment. If -C=FOLDER follows, the group runs in this folder. The folder may be another module. The groups run in
// order, -jobs of them at the same time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// heartbeat is the time without a result after which the report names the running tests.
const heartbeat = 30 * time.Second

// killDelay is the time that an interrupted go test has to stop its processes.
const killDelay = 30 * time.Second

// errFailed means that a test failed. The report contains the failure.
var errFailed = errors.New("tests failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, errFailed) && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	jobs := flags.Int("jobs", max(1, runtime.NumCPU()/2),
		"number of groups that run at the same time, so that no core is idle")
	logs := flags.String("logs", "", "folder for the complete output of each group (default a new temporary folder)")
	own, groups := split(args)
	if err := flags.Parse(own); err != nil {
		return err
	}
	if flags.NArg() > 0 || len(groups) == 0 {
		return errors.New("usage: testrun [flags] -- [NAME=VALUE ...] arguments of go test [-- ...]")
	}
	report := newReport(out, time.Now)
	for _, g := range groups {
		if err := report.expect(ctx, g); err != nil {
			return err
		}
	}
	dir, err := logDir(*logs)
	if err != nil {
		return err
	}
	runErr := runGroups(ctx, groups, *jobs, dir, report)
	failed := report.finish(dir)
	switch {
	case runErr != nil:
		return runErr
	case failed:
		return errFailed
	case *logs == "":
		return os.RemoveAll(dir)
	}
	return nil
}

func logDir(given string) (string, error) {
	if given == "" {
		return os.MkdirTemp("", "helmop-test-")
	}
	return filepath.Abs(given)
}

// group is one run of go test.
type group struct {
	env, args []string
	// dir is the folder; empty means the current folder.
	dir string
}

// split returns the flags of testrun itself and the groups.
func split(args []string) (own []string, groups []group) {
	first := slices.Index(args, "--")
	if first < 0 {
		return args, nil
	}
	own = args[:first]
	for _, arg := range args[first:] {
		if arg == "--" {
			groups = append(groups, group{})
			continue
		}
		g := &groups[len(groups)-1]
		if name, _, ok := strings.Cut(arg, "="); ok && len(g.args) == 0 && !strings.HasPrefix(name, "-") {
			g.env = append(g.env, arg)
			continue
		}
		if dir, ok := strings.CutPrefix(arg, "-C="); ok && len(g.args) == 0 {
			g.dir = dir
			continue
		}
		g.args = append(g.args, arg)
	}
	return own, groups
}

// runGroups runs all groups to their ends, even if some fail.
func runGroups(ctx context.Context, groups []group, jobs int, dir string, report *report) error {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-ticker.C:
				report.beat(heartbeat)
			case <-stop:
				return
			}
		}
	}()
	slots := make(chan struct{}, max(jobs, 1))
	errs := make([]error, len(groups))
	var running sync.WaitGroup
	for i, g := range groups {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = runGroup(ctx, i, g, filepath.Join(dir, fmt.Sprintf("go-test-%d.log", i+1)), report)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// runGroup runs one go test and writes its complete output to a file. It returns no error for a failed test.
func runGroup(ctx context.Context, number int, g group, file string, report *report) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	log, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, g.args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), g.env...), g.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = killDelay
	var stderr strings.Builder
	cmd.Stderr = io.MultiWriter(log, &stderr)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := report.read(number, stdout, log)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	switch {
	case readErr != nil:
		return readErr
	case errors.As(err, &exit) && report.hasFailed(number):
		return nil
	case err != nil:
		return fmt.Errorf("go test %s: %w: %s", strings.Join(g.args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
