// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package support has the commands of "kubectl helmop" that help to find the cause of a fault: "logs" shows the
// manager's log entries about one object, and "debug" writes an archive for a bug report.
//
// # Contract
//
//   - The commands read the management cluster with the permissions of the user, and write nothing there.
//   - "debug" reads Secrets only to find and mask their values in the collected files. An archive never contains a
//     Secret, the data of a ConfigMap, or values in the specs of HelmOps.
//   - Pure functions decide which lines concern an object and what is masked.
package support

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// Commands returns the commands.
func Commands(o kube.Options) []*cobra.Command {
	return []*cobra.Command{newLogs(o), newDebug(o)}
}
