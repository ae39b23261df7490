// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health determines whether objects, and the release that they belong to, are healthy. Its functions are pure:
// they use no cluster and no clock. The caller passes the time and keeps the [Past] of a release between calls.
//
// # Objects
//
// A [Checker] returns the [Status] of each object. User-defined CEL expressions determine the health of the kinds that
// have some. For all other kinds, kstatus determines the health, with the exceptions below. A message is the cause. It
// does not contain counts of replicas, so callers do not write on each step of a rollout.
//
// Differences from kstatus:
//
//   - A running Job is in progress until it has completed; a suspended one is current.
//   - A Pod that is not scheduled, or whose containers crash, is in progress, because nodes may be added and crash
//     loops may end. A Pod in phase Failed has failed.
//   - A PersistentVolumeClaim that waits for its first consumer is current. The pod that waits for the claim is not
//     current. A claim that lost its volume has failed.
//   - A DaemonSet with the update strategy OnDelete is current with pods of an older revision.
//   - An APIService is current when its service responds.
//   - An object under deletion is terminating, whatever expressions return.
//
// A DaemonSet without nodes is current, so that a CNI is healthy before the first node. A Service of type LoadBalancer
// is current without an external address, because the controller that requests it may be installed later.
//
// # Releases
//
// [Summarize] computes the [State] of a release from the health of its objects. A release becomes healthy when all of
// its objects are current. Afterwards it stays healthy while objects are in progress for less than [Policy].Timeout,
// because nodes are added and removed. Failed and deleted objects make it unhealthy at once.
package health
