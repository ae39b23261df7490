// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bill lists what the HelmOps of a fleet install: charts, images, CRDs and signatures.
//
// # Contract
//
//   - The contents of a Cluster are those that package preview renders, with the code of the engine. Images are those
//     that package images finds.
//   - Clusters with the same contents are a group. The order is always the same, and a bill has no time: two bills of
//     the same fleet are equal.
//   - A Cluster or a registry that cannot be read does not stop the bill: the release or the image has a message.
//   - A registry that does not answer is never reported as one that lacks an artifact.
package bill
