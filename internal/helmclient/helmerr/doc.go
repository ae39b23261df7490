// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmerr has the errors of the Helm engine: their kinds, how the errors of Helm and of clusters are classified, and what a user can do
// about them. It keeps values that a release is configured with out of all texts, see [Redactor] and [LogBuffer].
package helmerr
