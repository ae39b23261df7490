// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package records stores Helm's release records in Secrets of the workload cluster, in the format of Helm. It stores
// larger records in several parts or in a store of payloads.
//
// A [Store] accesses the records of a namespace for one action. It caches the metadata of a history, but not the
// contents of old revisions. It overwrites a record only if the record has not changed since the action read it
// (fence.go, [CarefulDriver]). A [RecordingDriver] stores what Helm wrote, and adds labels. Package recordcodec
// encodes and decodes records.
//
// # Payloads
//
// A record that is larger than a Secret is a pointer (pointer.go) to a payload. The payload is in further Secrets
// (chunks.go), or encrypted (seal.go) in a [payload.Store]. Rules for payloads (payloads.go):
//
//   - The name of a payload is a digest of its content with a random key of the action. An action puts equal content
//     only once. Two actions never use the same name. So an action never deletes or overwrites a payload of another
//     action that is about to write its pointer.
//   - An action first puts the payload and then writes the pointer.
//   - The records define which payloads are needed. An action deletes a payload that no record names, if the action put
//     the payload, or replaced or deleted its record. Several records can name one payload, because a rollback with the
//     helm command copies a pointer.
//   - After a write without a response, the action keeps the payload: the cluster may still carry out the write.
//   - A process that ends after it put the payload and before it wrote the pointer leaves the payload behind. In the
//     cluster, a later action deletes parts that are older than [ChunkGrace] and that no record names. In a store, such
//     payloads remain.
//
// The package does not decide which revision is created. It does not use charts, values or connections: callers pass
// clients.
package records
