// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisionstore reads HelmOpRevisions, and HelmOps with the spec of a HelmOpRevision. It writes nothing.
// Callers must not change the result of a cached reader.
package revisionstore
