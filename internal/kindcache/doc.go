// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kindcache reads objects of kinds that are known only at run time, because Clusters refer to them. Reads use a
// cache of controller-runtime, which has one informer for each kind.
//
// A user who may create Clusters chooses the kinds. So the package limits the cost of a kind:
//
//   - The first read of a kind starts its informer in the background and waits for at most half a second. Only a few
//     callers may wait at the same time. After the wait, the read fails with ErrPending until the objects of the kind
//     are listed.
//   - Before an informer starts, the package asks the API server whether it serves the kind, and whether the manager
//     may list and watch the kind. It asks for the rights again while the informer starts. It caches a refusal for 15
//     seconds. It stops an informer that does not become synced in time, and tries again after a minute.
//   - The number of kinds has a limit. All namespaces share this limit, and no namespace can use all of it.
//   - It stops an informer whose kind was not read for Options.Idle. This also ends the watches of controllers on the
//     kind. The next read starts it again.
//
// # What callers must do
//
// A caller that gets ErrPending must read again later: there is no notification when the kind is ready. A controller
// that needs the events of a kind must call [Watcher.Watch] after each read. This call costs nothing if the kind is
// watched already.
package kindcache
