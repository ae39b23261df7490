// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmopstatus concludes the status of a HelmOp from what a pass found: [Of] returns the conditions Ready and
// RollingOut, whether the HelmOp is stalled, the counts of the Clusters and the progress of the rollout. The package also
// has the texts of the conditions and Events about approvals, deletions and rollouts.
//
// All functions are pure. They read a [Pass] and change nothing: the controller of HelmOps fills the Pass, writes the
// status and records the Events.
package helmopstatus
