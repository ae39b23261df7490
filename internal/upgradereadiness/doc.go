// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgradereadiness reports in the condition KubernetesUpgradeReady whether a release is ready for a requested
// or pending upgrade of Kubernetes. [Checker.Due] decides whether a check must be made now, and [Checker.Run] makes it.
// There is one check for each set of inputs. A failed check is repeated with growing delays.
//
// Package clusterlife decides which upgrade to check, and package upgraderun runs the check. Package upgradereadiness
// changes only the condition and status.upgradeCheck, in memory. It never changes the inputs of the condition Ready.
//
// Callers must write the status, record the Event for Subject.Blocked, and call [Settle] at the end of each pass.
package upgradereadiness
