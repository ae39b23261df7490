// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisions decides which fields a HelmOpRevision stores and which HelmOpRevisions are kept. It has only pure
// functions over the types of the API.
//
// A revision stores the spec of its HelmOp, of up to 1.5 MiB. A HelmOp has up to a hundred revisions, and the revisions
// that are in use. Most changes are of the version of the chart, and do not change the large fields. So a large field
// is stored once: if an earlier revision has the same field, a revision omits the field and names the earlier revision
// in spec.contentFrom. [Share] omits the fields, and [Complete] restores them.
//
// [Surplus] limits the number and the bytes of the revisions. It never returns a revision that is in use, or that
// stores a field of another revision.
package revisions
