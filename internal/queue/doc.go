// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue orders the objects that wait for a worker: new HelmOpReleases before releases that are only checked
// again, and HelmOps by the turns of their namespaces.
package queue
