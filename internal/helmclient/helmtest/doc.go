// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmtest has what the tests of the Helm engine's packages share: charts, records, desired states, and
// connections that are cut.
package helmtest
