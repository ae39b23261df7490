// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pinning decides whether a release can have the HelmOp revision to which a user has pinned the release.
//
// The package is pure. It knows the pin and the specs of the release. It does not render them: the controller of
// HelmOps must render the release under the pinned revision first, and reports the error of [WhyNot].
package pinning
