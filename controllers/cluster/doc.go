// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reconciles Clusters of which HelmOps have requested something: a condition, or that an upgrade or a
// deletion waits for releases. It touches no other Clusters.
package cluster
