// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package driftmemory remembers, for each release, which objects were compared, what differed, and when a comparison or
// a correction is due.
package driftmemory
