// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring defines the metrics of the controllers. docs/reference/metrics.md describes them. The series of an
// object disappear when the object is gone, and the number of series of one kind of object has a limit.
package monitoring
