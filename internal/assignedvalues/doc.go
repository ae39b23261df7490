// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assignedvalues renders the values that a HelmOp has assigned to a release. A HelmOpRelease has only digests
// of its values, so the package renders the values again for each action from the HelmOp, its revisions and the
// Cluster. The package does not read charts or workload clusters. It never returns values whose digests differ from the
// digests in the release. After [ErrOutdated], callers must try again later. They must not store the values, which may
// contain secrets.
package assignedvalues
