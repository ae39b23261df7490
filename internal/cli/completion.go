// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// programName is the name of the binary. kubectl runs it for "kubectl helmop".
const programName = "kubectl-helmop"

// addCompletion adds two kinds of completion scripts: those of cobra for "kubectl-helmop", and the script that kubectl
// calls for plugins.
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
		Short: "Print the script with which kubectl completes \"kubectl helmop\"",
		Long: `Print the script with which kubectl completes "kubectl helmop".

Save it as kubectl_complete-helmop in a directory of the PATH, beside ` + programName + `.
kubectl's own completion must be set up.`,
		Example: `  kubectl helmop completion kubectl > ~/.local/bin/kubectl_complete-helmop
  chmod +x ~/.local/bin/kubectl_complete-helmop`,
		Args: kube.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(streams.Out, "#!/bin/sh\nexec %s %s \"$@\"\n", programName, cobra.ShellCompRequestCmd)
			return err
		},
	}
}
