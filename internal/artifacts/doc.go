// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package artifacts gets the chart of a resolved artifact for the reconciler of releases. It reads the chart from the
// store or the registry, verifies its signature and parses it, once for all releases of a namespace with the same
// chart.
//
// Background tasks do this work: an unresponsive registry, or an artifact that takes long to parse, does not block a
// worker. A failed task is retried with backoff, once for all these releases. The package does not resolve references
// and does not run Helm actions.
//
// Callers must not change a chart, and must return from the pass on [ErrFetching]: the release is enqueued when the
// task ends.
package artifacts
