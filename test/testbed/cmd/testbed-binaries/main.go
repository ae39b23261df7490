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

// Command testbed-binaries makes sure that every program of the test bed is in
// the user's cache folder, and prints where each one is.
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
	noDownload := flag.Bool("no-download", false, "build every missing program, even where a download exists")
	quiet := flag.Bool("quiet", false, "do not print where the programs are")
	command := flag.String("for", "", `"demo" prepares what the demo needs, and not what only tests need`)
	var compiled []string
	flag.Func("compile", "package of this repository to compile beforehand, without linking; may be repeated", func(value string) error {
		compiled = append(compiled, value)
		return nil
	})
	flag.Parse()

	opts := binaries.Options{NoDownload: *noDownload, Progress: os.Stderr}
	switch *command {
	case "":
	case "demo":
		opts.Programs = binaries.Basic()
	default:
		return fmt.Errorf("-for %s: only \"demo\" is known", *command)
	}
	set, err := binaries.Ensure(ctx, opts)
	if err == nil && len(compiled) > 0 {
		err = binaries.Compile(ctx, opts, compiled...)
	}
	if err != nil || *quiet {
		return err
	}
	for _, name := range set.Names() {
		fmt.Printf("%-24s %-10s %s\n", name, set.Version(name), set.Path(name))
	}
	return nil
}
