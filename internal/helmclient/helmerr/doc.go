// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmerr defines the errors of the Helm engine: their kinds, the classification of errors of Helm and of
// clusters, and advice for users. It removes the values of a release from all texts, see [NewRedactor] and [LogBuffer].
// Callers must pass each error of Helm or of a cluster through this package before they report it.
package helmerr
