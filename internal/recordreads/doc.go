// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordreads reads Helm's records in workload clusters for the reconciler of releases. A cluster that does not
// respond occupies no worker.
//
// A responsive cluster responds in milliseconds, and the worker waits for that. A cluster that does not respond within
// half a second counts as unresponsive: no worker waits for it, and only a few reads of it run at a time. Its releases
// are requeued when a read ends. One response makes the cluster responsive again.
//
// The package does not depend on Helm or clients: callers of [Reads.Observe] pass the function that reads. They must
// call [Reads.Drop] and [Reads.Forget] when a release or a cluster is deleted.
package recordreads
