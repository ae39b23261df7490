// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reconciles Clusters for which HelmOps request a condition, or that an upgrade or a deletion waits for
// releases. It does not change other Clusters.
package cluster
