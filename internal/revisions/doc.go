// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisions decides which fields a HelmOpRevision stores, and which HelmOpRevisions are kept. It has only pure
// functions over the types of the API. Callers read, write and delete the revisions.
//
// A revision stores the spec of its HelmOp, of up to 1.5 MiB. A HelmOp has up to a hundred revisions, in addition to
// the revisions in use. Most changes only change the version of the chart, and no large field. So a large field is
// stored once: if an earlier revision has the same field, a new revision omits the field and names the earlier revision
// in spec.contentFrom. [Share] omits the fields, and [Complete] restores them. Fields that always come from the present
// HelmOp are not stored, see [CopyPresent].
//
// [Surplus] limits the number and the total size of the revisions. It never returns a revision that is in use, or that
// stores a field for another revision.
package revisions
