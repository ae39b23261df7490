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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
)

func main() {
	cli.Serve()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.RunAs(ctx, os.Args[0], os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}
