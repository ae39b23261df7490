// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight checks that registries have the images of a release before the release is changed.
//
// # Contract
//
//   - Each image costs one lookup for all releases of a namespace with the same access to registries. A found image is
//     not looked up again for half an hour. A missing image is looked up again after 5 s, then 10 s and so on, up to
//     5 min, while a release waits for it.
//   - Lookups run in the background, and no worker waits for long. The release is enqueued when they have ended.
//   - A registry that does not answer is not reported as one that lacks an image.
//   - The credentials of the manager are used on the host of the chart only. For other hosts, errors have their kind
//     only, because a chart decides which hosts are asked.
//   - The numbers of images and hosts of a release, and of remembered results, are bounded.
//   - Namespaces share nothing.
package preflight
