// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespacing creates and labels the namespace of a release, right before the first record of the release is
// created. It changes no other object. Package session calls it around each new record.
package namespacing
