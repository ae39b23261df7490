// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"time"
)

const (
	// OutdatedRetry is how often a release checks its HelmOp while the HelmOp is expected to change the release. The event
	// of the change usually comes earlier. The check is for changes that were reverted meanwhile.
	OutdatedRetry = 30 * time.Second
)

// ObjectReadRetry is the wait before another read of an object to which a Cluster refers, after a failed read. There is
// no event when the object appears.
const ObjectReadRetry = 15 * time.Second

// StaleRetry is the wait before the next reconciliation of an object whose latest state is not in the cache yet.
const StaleRetry = 50 * time.Millisecond

// UnreachableRetry is the delay before the next connection to a cluster that did not answer, if the link to the cluster
// has not detected the failure. Otherwise the link enqueues the release when the cluster answers.
const UnreachableRetry = 15 * time.Second

// BusyRetry is the delay until a release is tried again that found no memory or renderer free.
const BusyRetry = 30 * time.Second
