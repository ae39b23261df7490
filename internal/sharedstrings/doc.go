// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharedstrings makes equal strings of cached objects share their memory. A decoder allocates each string anew:
// the keys of labels, the types and messages of conditions, digests. With five thousand releases, most strings have
// equals in thousands of other objects.
//
//	options.DefaultTransform = pool.Transform
//
// The content of an object does not change. [Pool.Share] writes the strings of an object, so callers must own the
// object, as a transform of a cache does. A pool has a fixed size: a string that is used only once makes room for the
// next one.
package sharedstrings
