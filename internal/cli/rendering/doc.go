// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rendering has the commands of "kubectl helmop" that compute what HelmOp would install: values, render,
// preview, bill and upgrade-check. They read the management cluster and registries with the permissions of the user.
// For a comparison, they also read workload clusters.
//
// The package does not change a cluster. It does not compute the results: packages preview and upgradecheck do, with
// the code of the controllers. Callers add the result of [Commands] to their root command. The commands diff and mirror
// render artifacts with [Objects].
package rendering

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// Commands returns the commands of this package.
func Commands(o kube.Options) []*cobra.Command {
	return []*cobra.Command{newValues(o), newRender(o), newPreview(o), newBill(o), newUpgradeCheck(o)}
}
