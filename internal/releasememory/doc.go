// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasememory holds the state of each release that is only in the memory of the manager: a restart loses it. So
// nothing may depend on it that the status of the release or the cluster does not show again.
//
// The controller of HelmOpReleases must drop the memory of a release that it does not serve any more, and the memory of
// its objects when it stops watching them.
package releasememory
