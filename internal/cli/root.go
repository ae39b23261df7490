// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of HelmOp, "kubectl helmop".
package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// Streams are where a command reads and writes.
type Streams = genericiooptions.IOStreams

// Run runs a command line, without the program's name, and returns the exit code, see exitCode.
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
		Short: "Make, push, read and compare the artifacts that HelmOp installs, and install HelmOp itself",
		Long: `Make, push, read and compare the artifacts that HelmOp installs: Helm charts and folders of Kubernetes objects in OCI registries.

Credentials are those of the Docker configuration (` + "`docker login`" + `, ` + "`kubectl helmop login`" + `), credential helpers included.

Exit codes: 0 done; 1 failed, or "diff" found differences; 2 wrong arguments, or "diff" failed; 3 not found; 4 access denied;
5 the registry does not answer.`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl helmop"},
		Version:           version.String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError{fmt.Errorf("there is no command %q; see %q", args[0], cmd.CommandPath()+" --help")}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newPush(streams), newPull(streams), newList(streams), newTag(streams), newDiff(streams), newLogin(streams), newLogout(streams),
		newBootstrap(streams),
	)
	addCompletion(root, streams)
	return root
}

// exactArgs demands a number of arguments and tells their names.
func exactArgs(names ...string) cobra.PositionalArgs { return minArgs(len(names), names...) }

// minArgs demands the named arguments, and as many more as it takes if most is negative.
func minArgs(most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= len(names) && (most < 0 || len(args) <= most) {
			return nil
		}
		return usageError{fmt.Errorf("%d arguments, want %s; see %q", len(args), cmd.UseLine(), cmd.CommandPath()+" --help")}
	}
}

// Command returns the command tree. Tests of the documentation parse command lines with it; Run runs them.
func Command(streams Streams) *cobra.Command { return newRoot(streams) }
