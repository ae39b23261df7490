// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package records stores Helm's release records in Secrets of the workload cluster, in the format of Helm, and larger
// ones in several parts or in a store of payloads.
//
// A [Store] is one action's view of the records of a namespace. It keeps the metadata of a history and no contents of
// old revisions. It writes an existing record only in the state that the action knows (fence.go, [CarefulDriver]). A
// [RecordingDriver] sees what Helm writes, and labels it. A [Codec] packs a chart's files once for all clusters.
//
// # Payloads
//
// A record that is larger than a Secret is a pointer (pointer.go) to a payload. The payload is in further Secrets
// (chunks.go), or encrypted (seal.go) in a [payload.Store]. Rules for payloads (payloads.go):
//
//   - The name of a payload is a digest of its content with a key that each action draws. An action puts the same
//     content once. Two actions never give the same name, so an action never deletes or overwrites a payload that
//     another action put and is about to name.
//   - An action puts a payload first and writes the pointer then.
//   - Which payloads are needed follows from the records: an action deletes a payload that it put, or whose record it
//     replaced or deleted, if no record names it. One payload can have several records, because Helm's rollback by hand
//     copies a pointer.
//   - After a write without an answer, the action keeps the payload: the cluster may still carry out the write.
//   - A process that ends between payload and pointer leaves the payload behind. A later action deletes parts in the
//     cluster that no record names once they are older than [ChunkGrace]. In a store they stay.
//
// The package does not decide which revision is made, and it does not know charts, values or connections.
package records
