// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maintenance decides whether a release in a Cluster may be changed now. It considers the windows, the freezes
// and the veto of the HelmOp and of the Cluster.
//
// # Contract
//
//   - The package consists of pure functions: callers pass the objects and the time.
//   - It parses spec.maintenance and the annotations on Clusters.
//   - A limit that cannot be parsed permits no change, because its author intended a limit. Messages say what to
//     correct.
//   - The package does not carry out or stop actions. Callers ask with Limits.Covers whether the limits apply to a kind
//     of action, and wait if they do.
package maintenance
