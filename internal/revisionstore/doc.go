// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisionstore reads HelmOpRevisions, and HelmOps with the spec of a HelmOpRevision.
package revisionstore
