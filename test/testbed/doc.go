// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testbed starts the parts of the test bed: a management cluster with Cluster API's own core manager and the
// local provider, and HelmOp's manager. HelmOp's manager runs as a process. The package also installs HelmOp in the
// management cluster by clusterctl.
//
// README.md in this folder shows the use. Each Start* function has a Stop that stops everything it started. On Linux,
// everything stops at the latest when the caller's process ends, even if the process is killed.
package testbed
