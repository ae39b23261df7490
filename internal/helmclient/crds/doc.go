// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds applies the objects in a chart's crds folders. [Read] reads the objects. [Apply] creates them, or
// creates and replaces them, and waits until the cluster serves the new kinds. The package deletes nothing. The caller
// decides whether CRDs are applied, and passes a check that runs before the first write.
package crds
