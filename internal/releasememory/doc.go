// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasememory holds the state of each release that exists only in the memory of the manager. A restart loses
// this state. So it must always be possible to rebuild it from the status of the release or from the cluster.
//
// The package stores the state. It does not compute it: packages releasehealth, driftmemory, upgradereadiness and
// tracing do.
//
// Callers must call [Memories.Drop] when this manager no longer serves a release. They must call [Memories.DropObjects]
// when they end the watches of its objects.
package releasememory
