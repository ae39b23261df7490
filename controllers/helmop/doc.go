// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmop is the controller of HelmOps. It resolves references to artifacts, selects Clusters, creates HelmOp
// revisions and plans the rollout. It writes one HelmOpRelease for each Cluster. [Reconciler.Reconcile] lists the
// steps.
//
// The package reads and writes objects of the management cluster. It sends no requests to workload clusters: package
// helmoprelease does. Package rollout decides which Cluster changes next, package render renders the values, and
// package helmopstatus computes the conditions. This package runs their decisions.
//
// Callers must call [SetupWithManager] once for each manager.
package helmop
