// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate has the command "kubectl helmop migrate". It converts objects of other tools to HelmOps, and HelmOp
// then takes over their releases.
//
// # Contract
//
//   - Without --apply and --undo, the command writes nothing.
//   - No step uninstalls a release, and no step upgrades a release that can be adopted. The command deletes an object
//     of the other tool only in a state in which this tool cannot uninstall the release.
//   - The steps of an item have a fixed order, and each can be repeated: pause, mark the Clusters, create the HelmOp,
//     wait for the adoption, detach. An annotation on the other tool's object contains the step, so the command
//     continues after an interruption. --undo returns to the other tool until detach begins.
//   - Fleet cannot pass a release to another owner. In this case, the paused HelmOp is created first. HelmOp installs
//     the charts over the objects when Fleet no longer manages the releases. An annotation on the HelmOp contains the
//     step.
//   - All conversions are in package internal/migrate. The permissions of the user limit what the command can do.
package migrate
