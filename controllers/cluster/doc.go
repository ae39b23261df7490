// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reconciles Clusters. It publishes the conditions that HelmOps request, and holds upgrades and
// deletions of a Cluster for which HelmOps request it. Package clusterlife makes the decisions. It does not change
// other Clusters, and does not install or uninstall releases. The package controllers calls [SetupWithManager].
package cluster
