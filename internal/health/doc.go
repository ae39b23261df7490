// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health determines whether objects, and the release that they belong to, are healthy. Its functions are pure:
// they do not read a cluster or the time. The caller passes the time, and must keep the [Past] of a release between
// calls.
//
// # Objects
//
// A [Checker] returns the [Status] of each object. CEL expressions of the user determine the health of their kinds. For
// all other kinds, kstatus determines the health, with the exceptions below. The message is the cause of a health that
// is not current. It contains no counts of replicas: otherwise callers would write a status for each step of a rollout.
//
// The exceptions from kstatus:
//
//   - A running Job is in progress until it has completed. A suspended Job is current.
//   - A Pod that is not scheduled, or whose containers crash, is in progress, because nodes may be added and crash
//     loops may end. A Pod in phase Failed has failed.
//   - A PersistentVolumeClaim that waits for its first consumer is current. The pod that waits for the claim is in
//     progress. A claim that lost its volume has failed.
//   - A DaemonSet with the update strategy OnDelete is current with pods of an older revision.
//   - An APIService is current when its service responds.
//   - An object under deletion is terminating, whatever the expressions return.
//
// kstatus finds a DaemonSet without nodes current. So a CNI is healthy before the first node exists. It also finds a
// Service of type LoadBalancer without an external address current: the controller that assigns the address may be
// installed later.
//
// # Releases
//
// [Summarize] computes the [State] of a release from the health of its objects. A release becomes healthy when all of
// its objects are current. Afterwards it stays healthy while objects are in progress for less than [Policy].Timeout:
// nodes are added and removed in normal operation. Failed and deleted objects make it unhealthy at once.
package health
