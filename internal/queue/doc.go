// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue orders the HelmOpReleases that wait for a worker: new releases before releases that are only checked
// again.
package queue
