// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adoption compares the record of a release with what HelmOp would render in its place. If nothing differs,
// HelmOp can adopt the release without a new Helm revision. All its functions are pure.
//
// The comparison ignores what has no effect in the cluster: the order of objects and fields, comments, null fields,
// empty labels and annotations, and the marks with which other tools label the objects of their releases, see
// [Compare].
package adoption
