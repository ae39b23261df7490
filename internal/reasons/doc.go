// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reasons maps errors to the reasons of conditions.
package reasons
