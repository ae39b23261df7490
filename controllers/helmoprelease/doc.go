// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmoprelease reconciles HelmOpReleases: it observes the release in the workload cluster, decides what it
// needs, and does that. Nothing else talks to a workload cluster. It does not change what is desired: the HelmOp
// controller writes that into the spec.
package helmoprelease
