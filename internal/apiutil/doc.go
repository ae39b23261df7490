// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiutil has what all controllers know of their own objects and of Clusters: names and labels, whose an object
// is, whether it is paused, ready or ends, which shard it belongs to, and which HelmOpReleases a Cluster or a HelmOp
// has.
//
// It decides nothing about the course of a release, and it writes nothing but the end of a HelmOpRelease that another
// one replaces.
package apiutil
