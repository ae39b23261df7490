// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds applies the objects in a chart's folders crds: [Read] reads them, [Apply] creates them, or creates and replaces them, and waits
// until the cluster serves the new kinds. Nothing is ever deleted.
package crds
