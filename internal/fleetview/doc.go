// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleetview computes what users see of a fleet from the objects of a management cluster: the state of each
// HelmOp in each Cluster, groups of Clusters in the same state, summaries of HelmOps, and what a user can do next.
//
// # Contract
//
//   - All functions are pure: the same objects give the same result. They do not read the time or a cluster: callers
//     pass both.
//   - Messages are copied from conditions. Their texts may come from workload clusters and registries. So callers must
//     escape them.
//   - The World may lack Clusters, because the user may not list them. The result then has no Clusters without a
//     release.
package fleetview
