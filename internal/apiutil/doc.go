// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiutil has functions that all controllers use for their own objects and for Clusters. They compute names,
// labels, owners and shards; they report whether an object is paused, ready or being deleted; and they list the
// HelmOpReleases of a Cluster or a HelmOp.
//
// The package makes no decisions about a release. Its only writes mark and delete a HelmOpRelease that another
// HelmOpRelease replaces.
package apiutil
