// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches says which objects are enqueued for an event: the indexes, what an object maps to, and which events
// count.
package watches
