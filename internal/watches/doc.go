// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches determines which objects are enqueued for an event: it provides the indexes, the mappings and the
// predicates for the controllers. It reconciles nothing. Callers must call [SetupIndexes] before the manager starts.
package watches
