// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actiongate decides whether the next action on a release may begin. Otherwise, the release waits for the
// rollout of its HelmOp, for dependencies and images, or for maintenance.
//
// All decisions are pure. The package knows decisions and specs. It does not know the current time or other releases:
// packages maintenance, dependencies and preflight check these. The controller of HelmOpReleases must report the reason
// of the wait.
package actiongate
