// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo runs HelmOp on this machine with real parts: a management cluster with Cluster API, three workload
// clusters, and an OCI registry with TLS and credentials. The manager has the permissions of a release. Run it with
// "make demo"; "go run ./test/demo --help" explains the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
)

const usage = `Runs HelmOp with three Clusters of Cluster API on this machine, an OCI registry, and a HelmOp that
selects two of the Clusters. Everything runs as local processes on loopback and is stopped with the demo. It needs Go.
The first run builds the programs of Kubernetes and Cluster API in some minutes, and keeps them in the user's cache
folder.

Usage: make demo [WAIT=0] [KEEP=1]     or: go run ./test/demo [flags]

  -wait=false   WAIT=0: check the outcome and end; the exit code is 0 only if all checks pass.
                Default: check, then stay up until Ctrl-C.
  -keep         KEEP=1: do not remove the work folder with kubeconfigs and logs. After a failure it is always kept.
  -timeout D    time limit from when the programs are ready until all checks pass. Default: 5m.
`

// options are the flags. Environment variables set their defaults.
type options struct {
	wait, keep bool
	timeout    time.Duration
}

func main() {
	cli.Serve()
	if filepath.Base(os.Args[0]) == helmopProgram {
		os.Exit(runHelmop())
	}
	opts, err := parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\nRun it with --help for the flags.\n", err)
		os.Exit(2)
	}
	// The local provider has its own log file; the logs of its libraries are not needed.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(untilOrphaned(ctx), opts, newProgress(os.Stdout)))
}

func parse(args []string, getenv func(string) string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.Usage = func() {}
	flags.SetOutput(io.Discard)
	flags.BoolVar(&opts.wait, "wait", getenv("WAIT") != "0", "")
	flags.BoolVar(&opts.keep, "keep", getenv("KEEP") != "" && getenv("KEEP") != "0", "")
	flags.DurationVar(&opts.timeout, "timeout", 5*time.Minute, "")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return opts, nil
}

// untilOrphaned ends the context also when the parent process has ended: a "go run" that is stopped does not pass
// signals on.
func untilOrphaned(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		defer cancel()
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return ctx
}

// run runs the demo and returns the exit code.
func run(ctx context.Context, opts options, p *progress) int {
	dir, err := os.MkdirTemp("", "helmop-demo-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	d := &demo{progress: p, dir: dir, timeout: opts.timeout}
	p.say("files, kubeconfigs and logs are in %s", dir)
	err = d.play(ctx)
	if err == nil && opts.wait {
		d.printNext()
		select {
		case <-ctx.Done():
			p.say("stopping")
		case <-d.manager.Done():
			err = d.manager.Unexpected()
		}
	}
	interrupted := ctx.Err() != nil
	stopErr := d.stop()
	return d.leave(opts, errors.Join(ignoreInterrupt(err, interrupted), stopErr), interrupted)
}

// ignoreInterrupt drops errors after the user stopped the demo.
func ignoreInterrupt(err error, interrupted bool) error {
	if interrupted {
		return nil
	}
	return err
}

// leave removes the work folder, unless it is still useful, and returns the exit code.
func (d *demo) leave(opts options, err error, interrupted bool) int {
	if err != nil {
		d.progress.say("FAILED: %v", err)
		d.progress.say("files and logs are kept in %s", d.dir)
		return 1
	}
	if opts.keep {
		d.progress.say("all programs are stopped; files and logs are kept in %s", d.dir)
	} else if err := os.RemoveAll(d.dir); err != nil {
		d.progress.say("cannot remove the work folder: %v", err)
		return 1
	} else {
		d.progress.say("all programs are stopped, and all files are removed")
	}
	if interrupted && !d.complete {
		// The demo was stopped before the checks.
		return 130
	}
	return 0
}
