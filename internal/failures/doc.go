// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failures maps an error of a pass to what the object reports and when the next pass is due: [Of] is the one
// place with this rule for HelmOps and HelmOpReleases. Package reasons has the tables of the reasons.
//
// The package is pure. It writes no condition, records no Event and counts no failure: the reconcilers carry out an
// [Outcome]. A reconciler must check before whether its pass was canceled, except for an error that is no failure.
package failures
