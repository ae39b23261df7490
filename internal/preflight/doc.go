// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight checks before a change of a release that registries have its images.
//
// # Contract
//
//   - All releases of a namespace with the same access to registries share one lookup for each image. A found image is
//     not looked up again for half an hour. While a release waits for it, a missing image is looked up again after 5 s,
//     then 10 s and so on, up to 5 min.
//   - Lookups run in the background, so they do not block workers for long. The release is enqueued when its lookups
//     have ended.
//   - An image counts as missing only if its registry answers. Otherwise it counts as unknown.
//   - The package uses the credentials of the manager only for the host of the chart. For other hosts, errors contain
//     only their kind, because the chart decides which hosts are asked.
//   - The numbers of images and hosts of a release, and of stored results, have limits.
//   - Namespaces share no results. Callers must check [Outcome.IsComplete] before they change the release.
package preflight
