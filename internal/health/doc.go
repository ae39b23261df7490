// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health tells whether objects, and the release that they make up, are healthy. It is pure: it knows no cluster
// and no clock.
//
// # Objects
//
// A [Checker] gives each object a [Verdict]. Kinds for which somebody wrote CEL expressions are judged by these, all
// others by kstatus, with the exceptions below. A message says why, in words that stay the same while numbers of
// replicas count up: whoever records it writes nothing while a rollout goes on.
//
// Where this package differs from kstatus:
//
//   - A Job that runs is in progress, until it has completed; one that is suspended is current.
//   - A Pod that is not scheduled or whose containers crash is in progress: nodes may come, and crash loops end.
//     One that has failed for good has failed.
//   - A PersistentVolumeClaim of a storage class that nobody provisions for yet waits for its first consumer and is
//     current. If a pod waits for it, that shows there. One that lost its volume has failed.
//   - A DaemonSet with the update strategy OnDelete is not in progress because its pods are of an older revision.
//   - An APIService is current once its service answers.
//   - An object whose deletion has begun is terminating, whatever expressions say.
//
// A DaemonSet without nodes is current, so that a CNI is healthy before the first node; a Service of type LoadBalancer
// is current without an address from the cloud, because the controller that asks for it may be installed later.
//
// # Releases
//
// [Summarize] turns the verdicts about the objects of a release into one [State]. A release becomes healthy when all of
// its objects are current. From then on it stays so while objects are in progress for less than [Policy].Timeout: nodes
// come and go, and that is no news. What failed or is gone shows at once.
package health
