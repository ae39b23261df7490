// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharding handles objects of other shards, which the cache of a manager does not have. It reports on all
// shards of a management cluster: which shards exist, and which HelmOps no manager serves. It relabels the objects of a
// HelmOp whose shard changed, and finds Clusters of other shards. It reads metadata and leases, but no specs. Callers
// must relabel objects only while their HelmOp is paused or under deletion, so that no other manager acts on the
// objects.
package sharding
