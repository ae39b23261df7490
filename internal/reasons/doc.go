// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reasons has the tables that say which reason a condition gives for an error.
package reasons
