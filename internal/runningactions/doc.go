// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runningactions stops the running action of a release when the release is deleted. It knows HelmOpReleases and
// their HelmOps, and not what an action does. Callers register each action before they check whether the release still
// exists: otherwise a deletion between the two would be missed.
package runningactions
