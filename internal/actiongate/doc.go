// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actiongate decides whether the next action on a release may begin. Otherwise, the release waits for the
// rollout of its HelmOp, for dependencies and images, or for maintenance.
//
// All decisions are pure. The package does not check the time, other releases or images: packages maintenance,
// dependencies and preflight do. The controller of HelmOpReleases must report the reason of the wait.
package actiongate
