// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgradereadiness reports in the condition KubernetesUpgradeReady whether a release is ready for an upgrade of
// Kubernetes that is requested or pending. Package clusterlife decides which upgrade that is, and package upgraderun makes
// the check.
//
// [Checker.Due] decides whether a check must be made now, and [Checker.Run] makes the check. A check is made once for
// everything that its result depends on; a failed check is repeated with growing delays. The package changes only the
// condition and status.upgradeCheck of the release in memory. It never changes what Ready depends on, and records no
// Event: the caller writes the status, records the Event for Subject.Blocked, and calls [Settle] at the end of each pass.
package upgradereadiness
