// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli implements "kubectl helmop". The commands pack, push, pull, list, tag, sign and compare artifacts in OCI
// registries, and bootstrap installs HelmOp in a management cluster.
//
// Run is the only entry point. Results go to Streams.Out; progress, warnings and errors go to Streams.ErrOut. Exit
// codes are stable: see exitCode.
package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// Streams are the input and the outputs of a command.
type Streams = genericiooptions.IOStreams

// Run runs a command line, without the name of the program, and returns the exit code.
func Run(ctx context.Context, args []string, streams Streams) int {
	root := newRoot(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !isQuiet(err) {
		_, _ = fmt.Fprintln(streams.ErrOut, "error:", err)
	}
	return exitCode(err)
}

func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   programName,
		Short: "Push, pull and compare artifacts that HelmOp installs, and install HelmOp itself",
		Long: `Push, pull and compare artifacts that HelmOp installs, and install HelmOp itself. Artifacts are Helm charts
and folders of Kubernetes objects in OCI registries.

Credentials are read from the Docker configuration (` + "`docker login`" + `, ` + "`kubectl helmop login`" + `) and its
credential helpers.

Exit codes:
  0  success
  1  failure, or "diff" found differences
  2  invalid arguments, or "diff" failed
  3  not found
  4  access denied
  5  the registry does not respond`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl helmop"},
		Version:           version.String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError{fmt.Errorf("unknown command %q; see %q", args[0], cmd.CommandPath()+" --help")}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newPush(
			streams,
		),
		newPull(streams),
		newList(streams),
		newTag(streams),
		newDiff(streams),
		newLogin(streams),
		newLogout(streams),
		newBootstrap(streams),
	)
	addCompletion(root, streams)
	return root
}

// exactArgs requires exactly the named arguments.
func exactArgs(names ...string) cobra.PositionalArgs { return minArgs(len(names), names...) }

// minArgs requires the named arguments, and allows up to most arguments; without limit if most is negative.
func minArgs(most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= len(names) && (most < 0 || len(args) <= most) {
			return nil
		}
		return usageError{fmt.Errorf("wrong number of arguments: got %d; usage: %s; see %q",
			len(args), cmd.UseLine(), cmd.CommandPath()+" --help")}
	}
}

// Command returns the command tree. Tests of the documentation parse command lines with it; Run runs them.
func Command(streams Streams) *cobra.Command { return newRoot(streams) }
