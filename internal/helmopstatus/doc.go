// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmopstatus computes the status of a HelmOp from the findings of a pass. [Of] returns the conditions Ready
// and RollingOut, the state Stalled, the counts of Clusters and the progress of the rollout. The package also has the
// texts of conditions and Events about approvals, deletions and rollouts.
//
// All functions are pure: they read a [Pass] and change nothing. The package sends no requests. The controller of
// HelmOps fills the Pass, writes the status and records the Events.
package helmopstatus
