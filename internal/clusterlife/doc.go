// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterlife decides whether HelmOps hold the upgrade or the deletion of a Cluster, for which releases, and
// for how long. It writes nothing.
package clusterlife
