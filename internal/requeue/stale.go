// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"time"
)

const (
	// OutdatedRetry is how often a release that expects its HelmOp to change something checks whether it has. The event of
	// the change usually arrives earlier. The check is for changes that were reverted meanwhile.
	OutdatedRetry = 30 * time.Second
)

// ObjectReadRetry is the wait before another read of an object that a Cluster refers to and that could not be read.
// There is no event when the object appears.
const ObjectReadRetry = 15 * time.Second

// StaleRetry is the wait before an object is reconciled again because the cache does not have its latest state yet.
const StaleRetry = 50 * time.Millisecond

// UnreachableRetry is the delay before the next connection to a cluster that did not answer, if the link to the cluster
// has not detected the failure. Otherwise the link enqueues the release when the cluster answers.
const UnreachableRetry = 15 * time.Second
