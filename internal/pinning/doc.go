// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pinning decides whether a release can have the HelmOp revision to which a user has pinned it. The decision is
// pure: the controller of HelmOps renders the release under that revision before, and reports the error.
package pinning
