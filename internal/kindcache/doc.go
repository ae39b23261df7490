// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kindcache reads objects of kinds that are named at run time: those that Clusters refer to. Reads come from a
// cache of controller-runtime, which has one informer for each kind.
//
// Whoever may create a Cluster names the kinds. So the package bounds what a kind can cost:
//
//   - No caller waits for a kind. The first read of a kind begins its informer in the background and waits for half a
//     second at most, and only one caller of a namespace waits at a time. Then the read fails with ErrPending until the
//     kind is known.
//   - Before an informer begins, the API server is asked whether the manager may list and watch the kind. A refusal is
//     remembered for a minute. An informer that is not synced in time ends.
//   - The number of kinds is bounded, and namespaces share it: one namespace cannot use it up.
//   - An informer that nobody has read for Options.Idle ends, with the watches of the controllers. The next read begins
//     it again.
//
// # What the caller owes
//
// A caller that gets ErrPending comes back: nothing tells when the kind is known. A controller that needs the events of
// a kind calls [Watcher.Watch] after each read, which costs nothing when the kind is watched already.
package kindcache
