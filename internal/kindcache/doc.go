// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kindcache reads objects of kinds that are known only at run time, because Clusters refer to them. Reads use a
// cache of controller-runtime, which has one informer for each kind.
//
// A user who may create Clusters determines the kinds. So the package bounds the cost of a kind:
//
//   - The first read of a kind starts its informer in the background and waits for at most half a second. Only a few
//     callers wait at the same time. Then the read fails with ErrPending until the objects of the kind are listed.
//   - Before an informer starts, the API server is asked whether the manager may list and watch the kind. A refusal is
//     cached for a minute. An informer that is not synced in time is stopped.
//   - The number of kinds is bounded. Namespaces share the limit, and no namespace can use all of it.
//   - An informer whose kind was not read for Options.Idle is stopped, and the watches of the controllers end with it.
//     The next read starts it again.
//
// # What callers must do
//
// A caller that gets ErrPending must read again later, because there is no notification when the kind is ready. A
// controller that needs the events of a kind calls [Watcher.Watch] after each read. This costs nothing if the kind is
// watched already.
package kindcache
