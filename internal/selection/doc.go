// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection decides in which Clusters a HelmOp may install, in two steps. [Selector] reports which Clusters the
// spec of the HelmOp selects. [Guard] reports which Clusters of other namespaces the HelmOp may access, and whether it
// may access the management cluster. For that, Guard sends a SubjectAccessReview for the ServiceAccount that the HelmOp
// names, and caches the result. Callers must check both.
package selection
