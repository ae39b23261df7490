// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line "kubectl helmop". Its own commands pack, push, pull, list, tag, sign, compare and
// mirror artifacts in OCI registries. Results go to Streams.Out; progress, warnings and errors go to Streams.ErrOut.
// Exit codes are stable: see package exit.
//
// The commands of this package use artifacts and registries. Package fleet has the commands that show and change a
// fleet. Package bootstrap installs HelmOp. Packages migrate and support have their own commands.
//
// Run and RunAs are the entry points. Callers must call [Serve] first.
package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/bootstrap"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/fleet"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/support"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// Streams are the input and the outputs of a command.
type Streams = genericiooptions.IOStreams

// Serve must be the first call of main. If this process is a child that renders charts for a command, Serve does not
// return.
func Serve() { sandbox.Serve(rendering.Tasks(), bundle.Tasks()) }

// Run runs a command line of kubectl-helmop and returns the exit code. args do not contain the name of the program.
func Run(ctx context.Context, args []string, streams Streams) int {
	return RunAs(ctx, programName, args, streams)
}

// RunAs is Run for a program with another name or path. For example, clusterctl-helmop is a plugin of clusterctl, and
// its texts contain "clusterctl helmop".
func RunAs(ctx context.Context, program string, args []string, streams Streams) int {
	root := newRootAs(program, streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !exit.IsQuiet(err) {
		// Errors contain texts of API servers and registries.
		_, _ = fmt.Fprintln(streams.ErrOut, "error:", printers.EscapeTerminal(err.Error()))
	}
	return exit.Code(err)
}

func newRoot(streams Streams) *cobra.Command { return newRootAs(programName, streams) }

// programs maps the names of the binary to the command that users type.
var programs = map[string]string{programName: "kubectl helmop", "clusterctl-helmop": "clusterctl helmop"}

// newRootAs returns the commands of a program. An unknown program gets the commands of kubectl-helmop.
func newRootAs(program string, streams Streams) *cobra.Command {
	program = strings.TrimSuffix(filepath.Base(program), ".exe")
	if programs[program] == "" {
		program = programName
	}
	title := programs[program]
	root := newCommands(program, title, streams)
	if title != programs[programName] {
		rename(root, programs[programName], title)
	}
	return root
}

// rename replaces the name of the program in the texts of a command and of its subcommands.
func rename(cmd *cobra.Command, from, to string) {
	for _, text := range []*string{&cmd.Short, &cmd.Long, &cmd.Example} {
		*text = strings.ReplaceAll(*text, from, to)
	}
	for _, child := range cmd.Commands() {
		rename(child, from, to)
	}
}

func newCommands(program, title string, streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   program,
		Short: "See and steer a fleet, work with artifacts that HelmOp installs, and install HelmOp itself",
		Long: `See and steer the HelmOps of a fleet; push, pull and compare the artifacts that HelmOp installs; and install
HelmOp itself. Artifacts are Helm charts and folders of Kubernetes objects in OCI registries.

The commands for a fleet use the management cluster of the kubeconfig. The commands for artifacts need no cluster.
Credentials of registries are read from the Docker configuration (` + "`docker login`" + `,
` + "`kubectl helmop login`" + `) and its credential helpers.

Exit codes:
  0  success
  1  failure; or the result of "diff", "preview", "upgrade-check", "bill --missing-in" or "status --exit-code":
     something differs, is to do, is missing or is unhealthy
  2  invalid arguments, or one of these commands has no result
  3  not found
  4  access denied
  5  the registry or the API server does not respond`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: title},
		Version:           version.String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return kube.Usagef("unknown command %q; see %q", args[0], cmd.CommandPath()+" --help")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return kube.Usagef("%v", err) })
	root.AddCommand(
		newPush(streams),
		newPull(streams),
		newList(streams),
		newTag(streams),
		newDiff(streams),
		newMirror(streams),
		newLogin(streams),
		newLogout(streams),
		bootstrap.Command(streams),
	)
	options := kube.Options{Streams: streams, Program: title}
	root.AddCommand(fleet.Commands(options)...)
	root.AddCommand(migrate.Commands(options)...)
	root.AddCommand(support.Commands(options)...)
	addCompletion(root, streams)
	return root
}

// Command returns the command tree. Tests of the documentation use it to parse command lines. To run a command, use
// Run.
func Command(streams Streams) *cobra.Command { return newRoot(streams) }
