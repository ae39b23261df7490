// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dependencies decides whether the dependencies of a HelmOp or a release are met. It also finds the objects to
// reconcile after a change of a dependency. It reads HelmOps, HelmOpReleases and Clusters, and writes nothing. It does
// not install or uninstall releases. Callers report its results in conditions. A [Gate] is for one release in one
// Cluster. For a whole fleet, callers use [ReadDependency] once for each dependency, and [Dependency.Unmet] for each
// Cluster.
package dependencies
