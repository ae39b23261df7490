// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adoption compares the record of a release with the content that HelmOp would render in its place. If nothing
// differs, HelmOp can adopt the release without a new Helm revision. All its functions are pure: they read no cluster.
// Callers render the content and carry out the adoption.
//
// The comparison ignores differences without an effect in the cluster: the order of objects and fields, comments, null
// fields, empty labels and annotations, and the marks that other tools set on the objects of their releases, see
// [Compare].
package adoption
