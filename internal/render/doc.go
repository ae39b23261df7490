// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render compiles the templates of a HelmOp and renders them for a Cluster: name and
// namespace of the release, the values, and the variant of the HelmOp that applies to the Cluster.
package render
