// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releaseinventory converts the objects of a release to the inventory in the status of its HelmOpRelease, and
// back. It consists of pure functions. It does not read the state of the objects. The size of the inventory has a
// limit: callers must report that an inventory is truncated.
package releaseinventory
