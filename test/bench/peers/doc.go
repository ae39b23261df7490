// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers runs tools that install Helm charts in the Clusters of Cluster API, so that the benchmark can compare
// them: HelmOp, a plain loop over the Helm SDK, CAAPH, Flux and Sveltos. Each tool manages the same charts with the
// same values, and waits for no object to become ready.
//
// The package starts the programs and writes their objects. [Records] says when the releases are installed, by Helm's
// records in the workload clusters, which all tools write in the same way. The package measures nothing, and must not
// ask a tool for its own view of a release. A caller gives each tool Clusters of its own, and calls Stop at the end.
package peers
