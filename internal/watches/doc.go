// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches determines which objects are enqueued for an event: it has the indexes, the mappings and the
// predicates.
package watches
