// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps content of registries in a directory, by its digest and within a size limit.
//
// # Contract
//
//   - The directory is an OCI image layout, and the only one that the package writes. It belongs to one
//     Store of one process at a time.
//   - Read returns bytes only if they match their digest. Corrupt content is dropped and is then not stored.
//   - A killed process leaves nothing behind that a later process takes for content.
//   - When the disk is full, or smaller than the limit, the least recently used content is evicted.
//     Content that Write returned is not evicted before the caller calls release.
//   - Write and WriteFile return ErrTryAgain after they removed the cause of a failure, for example in a
//     directory that was emptied. The caller reads the content from its source once more.
//   - All repositories share the store. A digest is not a secret that protects content between tenants: if
//     you need this protection, use one store per tenant.
//   - The package makes no request.
package store
