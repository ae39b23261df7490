// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package steer has the commands of "kubectl helmop" that control a fleet.
//
// # Contract
//
//   - The commands write only fields and annotations of HelmOps and HelmOpReleases that the API documents. The
//     permissions of the user limit what they can write.
//   - Each command can wait for its result, and then says what it waits for.
//   - Pure functions compute what is written and when a wait ends: a request changes a HelmOp, and a goal reports
//     whether a HelmOp has reached it.
package steer

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// Commands returns the commands of the package. The commands in rollout are added as subcommands of "rollout".
func Commands(o kube.Options, rollout ...*cobra.Command) []*cobra.Command {
	return []*cobra.Command{newReconcile(o), newRetry(o), newPause(o), newResume(o), newRollout(o, rollout),
		newRollback(o), newUnpin(o), newApprove(o), newConfirm(o)}
}
