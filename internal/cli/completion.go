// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// programName is the name of the program's file: kubectl takes "kubectl helmop" for it.
const programName = "kubectl-helmop"

// addCompletion adds the scripts of cobra, which complete the program by its own name, and the one that kubectl asks for its plugins.
func addCompletion(root *cobra.Command, streams Streams) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.AddCommand(newKubectlCompletion(streams))
		}
	}
}

func newKubectlCompletion(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl",
		Short: "Print the script by which kubectl completes \"kubectl helmop\"",
		Long: `Print the script by which kubectl, whose own completion must be set up, completes "kubectl helmop": as kubectl_complete-helmop it must be in the
PATH, as must be ` + programName + `.`,
		Example: `  kubectl helmop completion kubectl > ~/.local/bin/kubectl_complete-helmop
  chmod +x ~/.local/bin/kubectl_complete-helmop`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(streams.Out, "#!/bin/sh\nexec %s %s \"$@\"\n", programName, cobra.ShellCompRequestCmd)
			return err
		},
	}
}
