// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package steer has the commands of "kubectl helmop" that steer a fleet.
//
// # Contract
//
//   - The commands write only fields and annotations of HelmOps and HelmOpReleases that the API documents. The rights
//     of the user decide what they can write.
//   - Each command waits for the result on request, and says what it waits for.
//   - What they write, and when a wait ends, is computed by pure functions: a request changes a HelmOp, and a goal says
//     whether a HelmOp has reached it.
package steer

import (
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// Commands returns the commands of the package. The commands of rollout are added to "rollout".
func Commands(o kube.Options, rollout ...*cobra.Command) []*cobra.Command {
	return []*cobra.Command{newReconcile(o), newRetry(o), newPause(o), newResume(o), newRollout(o, rollout),
		newRollback(o), newUnpin(o), newApprove(o), newConfirm(o)}
}
