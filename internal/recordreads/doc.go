// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordreads reads Helm's records in workload clusters for the controller of HelmOpReleases. An unresponsive
// cluster occupies no worker.
//
// The worker waits for a read for half a second at most; a responsive cluster needs milliseconds. The package reports
// each answer and each slow read to [Links], which decide whether a cluster is unresponsive. No worker waits for an
// unresponsive cluster, and only a few of its reads run at the same time. Its releases are requeued at the end of a
// read.
//
// After a start of the manager, [Reads.ObserveShared] reads the records of all releases of a namespace in one request,
// and holds no worker. The result is for the pass that began the read, and for the [Kept] of the other releases. These
// releases are enqueued together at the end of the read, before releases that are only checked and have not begun.
//
// In a new cluster, [Reads.ObserveNew] reads the records of all namespaces in one request. For some time, the result
// shows which releases have no records, see [Reads.NoRecords]: their first installations need no read.
//
// A [Kept] has the result of a read, or the records that an action has left, for passes that need no other read.
//
// The package does not read records itself: callers of [Reads.Observe] pass the function that reads. Callers must call
// [Reads.Forget] when a cluster is deleted, and must keep a [Kept] for each release.
package recordreads
