// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection decides which Clusters a HelmOp serves, in two steps. [Selector] tells which Clusters the spec of
// the HelmOp selects. [Guard] tells which Clusters of other namespaces, and whether the management cluster, the HelmOp
// may access: it asks the API server on behalf of the ServiceAccount that the HelmOp names, and remembers the answers.
// Callers check both.
package selection
