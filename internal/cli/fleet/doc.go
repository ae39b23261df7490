// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands of "kubectl helmop" that show a fleet: as tables, as Events, and on a page. They read
// the management cluster with the rights of the user, and write nothing. What they show is computed by pure functions,
// most of them in internal/fleetview.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/steer"
)

// Commands returns the commands that use a management cluster, with those of rendering and steer.
func Commands(o kube.Options) []*cobra.Command {
	return append([]*cobra.Command{
		newStatus(o), newGet(o), newDescribe(o), newTree(o), newEvents(o), newHistory(o), newVersions(o),
		newUI(o),
	}, append(rendering.Commands(o), steer.Commands(o, newHistory(o))...)...)
}
