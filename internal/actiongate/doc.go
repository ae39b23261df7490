// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actiongate decides whether the next action on a release may begin, or waits: for the rollout of the HelmOp, for
// its dependencies and images, or for maintenance.
//
// All decisions are pure. They write nothing: the controller of HelmOpReleases reports what the release waits for.
// Packages maintenance, dependencies and preflight decide whether the time, the dependencies and the images permit it.
package actiongate
