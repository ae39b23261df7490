// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifestweight bounds the memory that the manifests of a release take when they are parsed. Manifests come
// from three places: a rendered chart, the folders crds of a chart, and a record in a workload cluster. All of them are
// untrusted.
//
//	var budget manifestweight.Budget
//	err := budget.Take(text) // before anything parses the text
//
// # Contract
//
//   - Before the manager parses a manifest, a [Budget] has weighed it: rendered manifests in the process that renders
//     them, all other manifests in package actionmemory.
//   - The limits are the same for all of them. So HelmOp never writes a record that it refuses to read.
//   - The parses of different releases take much memory together. So callers also reserve memory for them, see package
//     actionmemory.
//   - To weigh a small text takes memory for its length only. A document of a large text, and one with aliases, is
//     parsed to nodes. Callers reserve memory for this parse, see [Measure].
package manifestweight
