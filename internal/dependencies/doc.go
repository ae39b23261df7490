// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dependencies decides whether the dependencies of a HelmOp or a release are met, and which objects an event of
// a dependency concerns. It knows HelmOps, HelmOpReleases and Clusters, and not how a release is installed. It reads
// objects and writes none: callers report its answers. A [Gate] is for one release in one Cluster; callers that decide
// about a whole fleet use [ReadDependency] once for each dependency, and [Dependency.Unmet] for each Cluster.
package dependencies
