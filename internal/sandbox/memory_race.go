//go:build race

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

// memoryFactor is how much more address space a program takes with the race detector, which keeps several bytes for
// each byte of memory.
const memoryFactor = 8
