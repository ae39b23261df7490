// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package driftmemory keeps the state of drift detection for one release: which objects were compared, which differ,
// and when the next comparison or correction is due.
package driftmemory
