// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap has the command "bootstrap": it pushes the components of HelmOp and the desired state of a management
// cluster to a registry, and installs HelmOp from there. What is applied to the cluster is decided by
// internal/bootstrap; this package reads flags, pushes and signs artifacts, and checks credentials.
package bootstrap
