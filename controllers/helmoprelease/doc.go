// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmoprelease has the controller of HelmOpReleases. It observes the release in the workload cluster, decides
// which action the release needs, and carries it out. No other controller connects to a workload cluster. The package
// does not change the desired state: the HelmOp controller writes the specs.
package helmoprelease
