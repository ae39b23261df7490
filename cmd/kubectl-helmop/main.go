// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-helmop is the plugin "kubectl helmop". It shows and controls the HelmOps of a fleet, and packs,
// pushes, reads and compares the artifacts that HelmOp installs. With the name clusterctl-helmop it is a plugin of
// clusterctl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
)

func main() {
	cli.Serve()
	// Without a logger, controller-runtime prints a stack trace after a while.
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the context. Code that does not follow the context, of kubectl for example, does not end then,
	// so a second signal ends the process.
	context.AfterFunc(ctx, stop)
	code := cli.RunAs(ctx, os.Args[0], os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}
