// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testbed puts the parts of the test bed together: a management cluster
// with Cluster API's own core manager and the local provider, the way in which
// clusterctl installs the product there, and the product's manager as a process.
//
// README.md in this folder shows its use. Everything that Start* starts ends
// with the matching Stop, and on Linux at the latest when the caller's process
// ends, however it does.
package testbed
