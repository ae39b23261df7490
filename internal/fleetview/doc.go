// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleetview turns the objects of a management cluster into what users see of a fleet: the state of each HelmOp
// in each Cluster, groups of Clusters that are alike, summaries of HelmOps, and what a user can do next.
//
// # Contract
//
//   - All functions are pure: the same objects give the same view. They read no clock and no cluster.
//   - Messages are those of conditions, which may come from workload clusters and registries. Callers must escape them.
//   - The World may lack Clusters that the user may not list. Then Clusters without a release are not in the view.
package fleetview
