// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterlife decides what HelmOps do in the life of a Cluster: whether its upgrade or its deletion is held,
// for which releases, and for how long. It writes nothing.
package clusterlife
