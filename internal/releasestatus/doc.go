// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasestatus sets the conditions of a HelmOpRelease that say whether its release is as desired: Released,
// Tested, Ready and ClusterReachable. It changes only the object in memory, and sends no request. It knows decisions
// and results of actions, and not why a decision was made. Callers write the status and record Events.
package releasestatus
