// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection decides in which Clusters a HelmOp may install. It does so in two steps. [Selector] reports which
// Clusters the spec of the HelmOp selects. [Guard] reports which Clusters of other namespaces the HelmOp may access,
// and whether it may access the management cluster. For this, a Guard sends a SubjectAccessReview for the
// ServiceAccount of the HelmOp, and caches the result. The package writes nothing else. Callers must check both.
package selection
