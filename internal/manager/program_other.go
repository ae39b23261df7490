//go:build !linux

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

// returnProgram does nothing: other systems are for development only.
func returnProgram(bool) error { return nil }
