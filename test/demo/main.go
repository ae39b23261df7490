// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows HelmOp at work, on this machine and on real parts: a management cluster with Cluster API, three
// workload clusters, an OCI registry with TLS and credentials, and the manager under the permissions that it ships
// with. Run it with "make demo"; "go run ./test/demo --help" explains it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const usage = `Shows HelmOp at work: three Clusters of Cluster API on this machine, an OCI registry, and a HelmOp that two of the
Clusters match. Everything runs as local processes on loopback and ends with the demo. It needs Go; the first run builds
the programs of Kubernetes and Cluster API, which takes a while, and keeps them in the user's cache folder.

Usage: make demo [WAIT=0] [KEEP=1]     or: go run ./test/demo [flags]

  -wait=false   WAIT=0: check the outcome and end; the exit code is 0 only if all is as it should be.
                Default: check, then stay up until Ctrl-C.
  -keep         KEEP=1: do not remove the work folder with kubeconfigs and logs. After a failure it is always kept.
  -timeout D    how long it may take from when the programs are there until all is as it should be. Default: 5m.
`

// options are the flags; environment variables set their defaults.
type options struct {
	wait, keep bool
	timeout    time.Duration
}

func main() {
	opts, err := parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\nRun it with --help for the flags.\n", err)
		os.Exit(2)
	}
	// The local provider logs to a file of its own; what its libraries say beside that is of no use to anyone here.
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

// untilOrphaned ends the context also when the program that started this one is gone: "go run" that is told to end
// passes nothing on.
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

// run is the demo's life; the result is the exit code.
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
			p.say("ending")
		case <-d.manager.Done():
			err = d.manager.Unexpected()
		}
	}
	interrupted := ctx.Err() != nil
	stopErr := d.stop()
	return d.leave(opts, errors.Join(ignoreInterrupt(err, interrupted), stopErr), interrupted)
}

// ignoreInterrupt drops what failed because the user ended the demo.
func ignoreInterrupt(err error, interrupted bool) error {
	if interrupted {
		return nil
	}
	return err
}

// leave removes the work folder, unless it is still of use, and tells the exit code.
func (d *demo) leave(opts options, err error, interrupted bool) int {
	if err != nil {
		d.progress.say("FAILED: %v", err)
		d.progress.say("files and logs are kept in %s", d.dir)
		return 1
	}
	if opts.keep {
		d.progress.say("everything is stopped; files and logs are kept in %s", d.dir)
	} else if err := os.RemoveAll(d.dir); err != nil {
		d.progress.say("cannot remove the work folder: %v", err)
		return 1
	} else {
		d.progress.say("everything is stopped and removed")
	}
	if interrupted && !d.complete {
		// It was asked to end before it could tell whether all is well.
		return 130
	}
	return 0
}
