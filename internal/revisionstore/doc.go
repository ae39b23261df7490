// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisionstore reads HelmOpRevisions, and a HelmOp as it was at one of them.
package revisionstore
