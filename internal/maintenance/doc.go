// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maintenance decides whether a release in a Cluster may be changed now, by the windows, the freezes and the
// veto of its HelmOp and of its Cluster.
//
// # Contract
//
//   - It consists of pure functions: no clients and no clocks.
//   - It knows the grammar of spec.maintenance and of the annotations on Clusters.
//   - Limits that cannot be read permit no change: the author wanted a limit. Messages say what to correct.
//   - It does not know which actions there are. Callers ask whether limits apply to a kind of action: Limits.Covers.
package maintenance
