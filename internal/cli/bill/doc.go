// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bill lists what the HelmOps of a fleet install: charts, images, CRDs and signatures.
//
// # Contract
//
//   - The contents of a Cluster are rendered by package preview, with the code of the engine. Package images finds the
//     images in them.
//   - Clusters with the same contents form a group. The order is always the same, and a bill contains no time. So two
//     bills of the same fleet are equal.
//   - If a Cluster or a registry cannot be read, the others are still listed: the release or the image has a message.
//   - A registry that does not answer is never reported as a registry that lacks an artifact.
package bill
