// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmop reconciles HelmOps: it resolves references to artifacts, selects Clusters, makes revisions, renders
// them, plans the rollout, and writes one HelmOpRelease for each Cluster. It never talks to a workload cluster.
// [Reconciler.Reconcile] is the list of steps.
package helmop
