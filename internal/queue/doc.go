// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue orders the objects that wait for a worker. New HelmOpReleases come before releases that are only
// checked again. HelmOps are served by the turns of their namespaces. The package decides only the order: it starts no
// work. A controller passes a [Constructor] as its queue.
package queue
