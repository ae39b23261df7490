// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordreads reads Helm's records in workload clusters for the controller of HelmOpReleases. An unresponsive
// cluster occupies no worker.
//
// A responsive cluster responds in milliseconds, and the worker waits for that, for at most half a second. The package
// reports each answer, and each read that takes longer, to [Links], which judge whether a cluster is unresponsive. No
// worker waits for an unresponsive cluster, and only a few reads of it run at a time. Its releases are requeued when a
// read ends.
//
// The package does not depend on Helm or clients: callers of [Reads.Observe] pass the function that reads. They must
// call [Reads.Forget] when a cluster is deleted, and keep a [First] for each release.
package recordreads
