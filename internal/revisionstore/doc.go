// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisionstore reads HelmOpRevisions, and HelmOps with the spec of a HelmOpRevision. It writes nothing.
// Callers pass the reader: from a cache, or from the API server.
package revisionstore
