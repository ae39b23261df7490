// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmerr has the errors of the Helm engine: their kinds, the classification of errors of Helm and of clusters,
// and advice for users. It keeps the values of a release out of all texts, see [Redactor] and [LogBuffer].
package helmerr
