// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordreads reads Helm's records in workload clusters for the reconciler of releases, so that a cluster that
// hangs holds no worker.
//
// A cluster that responds answers in milliseconds, and the worker waits for the answer. A cluster that does not answer
// within half a second counts as unresponsive: no worker waits for it, and a few reads at a time are enough. Its releases
// are enqueued again when a read ends. One answer makes the cluster responsive.
//
// The package knows no Helm and no client: callers of [Reads.Observe] pass the function that reads.
package recordreads
