//go:build !race

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

// memoryFactor is 1 without the race detector.
const memoryFactor = 1
