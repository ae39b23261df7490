// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate has the command "kubectl helmop migrate": it converts objects of other tools to HelmOps, and hands
// their releases over.
//
// # Contract
//
//   - Without --apply and --undo, the command writes nothing.
//   - No step uninstalls a release, and none upgrades a release that can be adopted. An object of the other tool is
//     deleted only in a state in which the other tool cannot uninstall its release.
//   - The steps of an item are in a fixed order, and each can be repeated: pause, mark the Clusters, create the
//     HelmOp, wait for the adoption, detach. An annotation of the other tool's object has the step, so that the
//     command continues after an interruption. --undo returns to the other tool until detach begins.
//   - Fleet never hands a release over. There, the paused HelmOp is created first, and HelmOp installs the charts over
//     the objects when Fleet has forgotten the releases. An annotation of the HelmOp has the step.
//   - All conversions are in package internal/migrate. The rights of the user decide what the command can do.
package migrate
