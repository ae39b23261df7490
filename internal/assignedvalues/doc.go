// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assignedvalues renders the values that a HelmOp has assigned to a release. A HelmOpRelease has only digests
// of its values, so the values are rendered again for each action. The package knows HelmOps, their revisions and
// Clusters, and neither charts nor workload clusters. It never returns values with other digests than those of the
// release. Callers must try again later after [ErrOutdated], and must not keep the values: they may contain secrets.
package assignedvalues
