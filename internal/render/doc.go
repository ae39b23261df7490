// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render compiles the templates of a HelmOp and renders them for a Cluster. The result has the name and
// namespace of the release, the values, and the variant of the HelmOp for the Cluster. It writes nothing and does not
// render charts. Callers must not store values: they may contain secrets.
package render
