// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package artifacts gets the chart of a resolved artifact for the reconciler of releases: from the store or the
// registry, verified, parsed, and once for all releases of a namespace that want the same. A registry that hangs, and
// an artifact that takes long to parse, hold no worker. A failed try is repeated after a wait that grows, once for all
// these releases.
package artifacts
