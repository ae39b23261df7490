// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasememory defines the state of each release that exists only in the memory of the manager. A restart
// loses this state. So it must always be possible to rebuild it from the status of the release or from the cluster.
//
// The package defines the parts of the state. It does not compute them: packages releasehealth, driftmemory,
// upgradereadiness, tracing and others do. Package memory stores one [Memory] for each release.
//
// Callers must drop the memory when this manager no longer serves a release, and only outside of a pass over the
// release: a pass may keep pointers to the parts. They must call [Memory.DropObjects] when they end the watches of its
// objects.
package releasememory
