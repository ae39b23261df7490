// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterlife decides whether HelmOps hold the upgrade or the deletion of a Cluster, for which releases, and
// for how long. It reads releases and HelmOps of a Cluster, and writes nothing. The controller of Clusters and the
// Runtime Extension carry out its decisions. Callers must store the values of annotations that a decision returns,
// because the next decision needs them.
package clusterlife
