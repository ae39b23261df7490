// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisions decides what a HelmOpRevision stores and which HelmOpRevisions are kept. It is made of pure
// functions over the types of the API.
//
// A revision holds the spec of its HelmOp, of up to 1.5 MiB, and a HelmOp has up to a hundred of them and those that
// are in use. Most changes are of the chart's version, and leave the large fields as they are. So a large field is
// stored once: a revision whose field is the same as that of an earlier one leaves it out and names the earlier one in
// spec.contentFrom. [Share] does that, and [Complete] puts the fields back.
//
// [Surplus] bounds the number and the bytes of the revisions. It never takes one that is in use, or that holds what
// another one needs.
package revisions
