// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rendering has the commands of "kubectl helmop" that compute what HelmOp would install: values, render,
// preview, bill and upgrade-check. They read the management cluster, registries and, if they compare, workload
// clusters, with the rights of the user, and write nothing. The computation itself is in internal/preview and
// internal/upgradecheck, which the controllers' own code serves.
package rendering

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// Commands returns the commands of this package.
func Commands(o kube.Options) []*cobra.Command {
	return []*cobra.Command{newValues(o), newRender(o), newPreview(o), newBill(o), newUpgradeCheck(o)}
}
