// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releaseinventory converts the objects of a release to the inventory in the status of its HelmOpRelease, and
// back. It consists of pure functions, and knows nothing of the state of the objects. The inventory is limited: callers
// must report that it is truncated.
package releaseinventory
