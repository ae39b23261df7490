// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror copies artifacts and images from one registry to another, with their signatures, and records in a lock
// file what was copied. It knows neither flags nor credentials: callers open the repositories.
package mirror
