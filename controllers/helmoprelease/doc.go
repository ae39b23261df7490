// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmoprelease is the controller of HelmOpReleases. It connects to the workload cluster, observes the release,
// decides which action the release needs, and carries the action out. It also watches the objects of the release,
// corrects drift and reports the result.
//
// Each reconciliation is about one release in one Cluster. The package decides nothing about rollouts or other
// Clusters, and does not change the desired state: package helmop writes the specs. No other controller changes a
// workload cluster. Package decide chooses the action, package helmclient runs Helm, and package clusterlink keeps the
// connections.
//
// Callers must call [SetupWithManager] once for each manager.
package helmoprelease
