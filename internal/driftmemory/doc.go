// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package driftmemory keeps the state of drift detection for one release: which objects were compared, which objects
// differ, and when the next comparison or correction is due. It compares and corrects nothing. Callers record the
// result of each comparison and correction, and use a [Memory] in one goroutine at a time.
package driftmemory
