// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmop reconciles HelmOps: it resolves references to artifacts, selects Clusters, creates and renders HelmOp
// revisions, plans the rollout, and writes one HelmOpRelease for each Cluster. It sends no requests to workload
// clusters. [Reconciler.Reconcile] has the list of steps.
package helmop
