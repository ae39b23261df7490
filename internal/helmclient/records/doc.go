// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package records stores Helm's release records in Secrets of the workload cluster, in the format of Helm, and larger ones in several parts or
// in a store of payloads.
//
// A [Store] is one action's view of the records of a namespace. It keeps the metadata of a history and no contents of old revisions. A
// record that exists is written only if it is still the one that was read, see [CarefulDriver]. A [RecordingDriver] sees what Helm writes, and
// labels it. A [Codec] packs a chart's files once for all clusters.
//
// A record that is larger than a Secret is a pointer (pointer.go) to a payload, which is in further Secrets (chunks.go) or in a
// [payload.Store]. A payload has a random ID and belongs to all records that name it; it is deleted when no record names it any more
// (payloads.go).
//
// It does not decide which revision is made, and it does not know charts, values or connections.
package records
