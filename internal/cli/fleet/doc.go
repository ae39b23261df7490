// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands of "kubectl helmop" that look at a fleet, show it on a page and render
// releases. With those of package steer, they are all commands that use a management cluster.
//
// # Contract
//
//   - The commands read the management cluster with the rights of the user, and write nothing.
//   - What they show is computed by pure functions, most of them in internal/fleetview.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/steer"
)

// Commands returns the commands that use a management cluster.
func Commands(o kube.Options) []*cobra.Command {
	return append([]*cobra.Command{
		newStatus(o), newGet(o), newDescribe(o), newTree(o), newEvents(o), newHistory(o), newVersions(o),
		newValues(o), newRender(o), newPreview(o), newBill(o), newUpgradeCheck(o), newUI(o),
	}, steer.Commands(o, newHistory(o))...)
}
