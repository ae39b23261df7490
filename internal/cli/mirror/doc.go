// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror copies artifacts and images with their signatures from one registry to another. It records the copies
// in a lock file. It does not read flags or credentials: callers open the repositories.
package mirror
