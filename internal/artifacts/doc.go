// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package artifacts gets the chart of a resolved artifact for the reconciler of releases. It reads
// the chart from the store or the registry, verifies and parses it, once for all releases of a
// namespace with the same chart. An unresponsive registry, or an artifact that takes long to parse,
// does not block a worker. A failed attempt is repeated with backoff, once for all these releases.
package artifacts
