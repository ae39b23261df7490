// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report writes what controllers report: conditions, a status in one request, and Events within a budget.
package report
