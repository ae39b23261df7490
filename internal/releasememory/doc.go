// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasememory holds the state of each release that exists only in the memory of the manager. A restart loses
// this state, so it must always be possible to rebuild it from the status of the release or from the cluster.
//
// The package stores the state. It does not compute it: packages releasehealth, driftmemory, upgradereadiness and
// tracing do.
//
// Callers must drop the memory of a release that this manager does not serve any more. When they stop to watch its
// objects, they must drop the memory of the objects.
package releasememory
