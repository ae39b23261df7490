// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dependencies decides whether the dependencies of a HelmOp or a release are met, and which objects an event of
// a dependency concerns.
package dependencies
