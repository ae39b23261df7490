// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands of "kubectl helmop" that show a fleet: status, get, describe, tree, events, history,
// versions and ui. They read the management cluster with the permissions of the user.
//
// The package does not write to a cluster. Package steer has the commands that do, and package rendering has the
// commands that compute releases. Pure functions in internal/fleetview compute the contents. Callers add the result of
// [Commands] to their root command.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/steer"
)

// Commands returns all commands that use a management cluster, including those of packages rendering and steer.
func Commands(o kube.Options) []*cobra.Command {
	return append([]*cobra.Command{
		newStatus(o), newGet(o), newDescribe(o), newTree(o), newEvents(o), newHistory(o), newVersions(o),
		newUI(o),
	}, append(rendering.Commands(o), steer.Commands(o, newHistory(o))...)...)
}
