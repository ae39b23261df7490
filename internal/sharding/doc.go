// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharding reports on all shards of a management cluster: HelmOps that no manager serves, and which shards
// there are.
package sharding
