// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring defines the metrics of the controllers. docs/operations.md describes them.
package monitoring
