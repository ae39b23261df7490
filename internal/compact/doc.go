// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compact makes cached objects smaller, without a change of their content:
//
//   - Equal strings share their memory. A decoder allocates each string again: the keys of labels, the types and
//     messages of conditions, digests. With five thousand releases, most strings have equals in thousands of other
//     objects.
//   - Slices have no unused capacity. A decoder allocates four elements for a slice with one.
//
// [Pool.Compact] writes to the object, so its caller must own the object, as a transform of a cache does. A pool has a
// fixed size: a string that is used only once makes room for the next one.
package compact
