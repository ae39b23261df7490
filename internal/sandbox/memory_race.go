//go:build race

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

// memoryFactor is the factor by which the race detector increases the address space of a program. It keeps several
// bytes for each byte of memory.
const memoryFactor = 8
