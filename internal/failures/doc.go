// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failures maps an error of a pass to an [Outcome]: the reason to report, and the delay until the next pass.
// [Of] has these rules for the errors of each [Stage], for HelmOps and HelmOpReleases. The tables of reasons are in
// package reasons.
//
// A step can find a state without an error, for example a Cluster without a connection, or images that a registry does
// not have. Such states are not in this package: docs/design.md lists them.
//
// The package is pure. It knows errors and stages. It does not know objects: it writes no condition, records no Event
// and counts no failure. The reconcilers do this with the Outcome: only they decide about Events.
//
// Before callers use an Outcome that is a failure, they must check whether their pass was canceled.
package failures
