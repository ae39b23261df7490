// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharding reports on all shards of a management cluster: which shards exist, and which HelmOps no manager
// serves.
package sharding
