// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal opens pseudo-terminals for tests of programs that draw. It works on Linux only.
package terminal
