// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health determines whether objects, and the release that they belong to, are healthy. It is pure: it uses no
// cluster and no clock. The caller passes the time and keeps the [Past] of a release between calls.
//
// # Objects
//
// A [Checker] gives each object a [Verdict]. Kinds with CEL expressions from the user are judged by these, all others
// by kstatus with the exceptions below. A message is the cause, and does not change while counts of replicas do, so
// callers do not write on each step of a rollout.
//
// Differences from kstatus:
//
//   - A running Job is in progress until it has completed; a suspended one is current.
//   - A Pod that is not scheduled, or whose containers crash, is in progress: nodes may come, and crash loops may end.
//     A pod in phase Failed has failed.
//   - A PersistentVolumeClaim that waits for its first consumer is current: a pod that waits for it is not. A claim
//     that lost its volume has failed.
//   - A DaemonSet with the update strategy OnDelete is current with pods of an older revision.
//   - An APIService is current when its service responds.
//   - An object that is being deleted is terminating, whatever expressions return.
//
// A DaemonSet without nodes is current, so that a CNI is healthy before the first node. A Service of type LoadBalancer
// is current without an external address, because the controller that requests it may be installed later.
//
// # Releases
//
// [Summarize] turns the verdicts on the objects of a release into one [State]. A release becomes healthy when all of
// its objects are current. From then on it stays healthy while objects are in progress for less than [Policy].Timeout,
// because nodes come and go. Failed and deleted objects count at once.
package health
