// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasestatus sets the conditions of a HelmOpRelease that report the state of its Helm release: Released,
// Tested, Ready and ClusterReachable. It changes only the object in memory, and sends no request. It reads decisions
// and results of actions, and does not decide or act itself. Callers must write the status and record Events.
package releasestatus
