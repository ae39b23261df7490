// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testbed-binaries ensures that every program of the test bed is in the user's cache folder, and prints the
// path of each.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	quiet := flag.Bool("quiet", false, "do not print the paths of the programs")
	command := flag.String("for", "", `"demo" prepares only the programs of the demo`)
	opts := binaries.Options{Progress: os.Stderr}
	flag.BoolVar(&opts.NoDownload, "no-download", false, "build every missing program, even where a download exists")
	flag.Func("compile", "package of this repository to compile beforehand, without linking; may be repeated",
		func(value string) error {
			opts.Compile = append(opts.Compile, value)
			return nil
		})
	flag.Parse()

	switch *command {
	case "":
	case "demo":
		opts.Programs = binaries.Basic()
	default:
		return fmt.Errorf("-for %s: the only value is \"demo\"", *command)
	}
	set, err := binaries.Ensure(ctx, opts)
	if err != nil || *quiet {
		return err
	}
	for _, name := range set.Names() {
		fmt.Printf("%-24s %-10s %s\n", name, set.Version(name), set.Path(name))
	}
	return nil
}
