// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring has the metrics of the controllers. They are described in docs/operations.md.
package monitoring
