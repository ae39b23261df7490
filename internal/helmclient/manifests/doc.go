// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests handles manifests of Helm revisions as texts:
//
//   - [Decode] parses manifests within a share of the memory for all parses.
//   - A [Recorded] holds the manifests of the records that an action has read.
//   - A [Cache] holds the compressed manifests of Helm revisions. With a cached manifest, a check of a release does not
//     read the record.
//
// The package does not read records or clusters. Package session fills a Recorded, and package helmclient fills the
// Cache.
//
// A Cache holds at most one revision of each release. The caller must call [Cache.Note] after each action, because a
// reinstalled release starts again with revision 1. The caller must call [Cache.Forget] when a cluster is deleted.
package manifests
