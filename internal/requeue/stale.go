// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package requeue

import (
	"time"
)

const (
	// OutdatedRetry is how often a release whose HelmOp is expected to tell something else looks whether it did. Its
	// event comes sooner; this is for what was taken back meanwhile.
	OutdatedRetry = 30 * time.Second
)

// ObjectReadRetry is the wait before an object that a Cluster refers to and that cannot be read is read again: nothing
// tells when it appears.
const ObjectReadRetry = 15 * time.Second

// StaleRetry is when an object is reconciled again whose cache does not show the latest state yet.
const StaleRetry = 50 * time.Millisecond
