// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store stores content of registries in a directory, by digest and within a size limit. The package sends no
// request: the caller reads content from its source and writes it to the store.
//
// # Contract
//
//   - The package writes only to its directory, which is an OCI image layout. Only one Store of one process may use the
//     directory at a time.
//   - Read returns bytes only if they match their digest. Corrupt content is dropped, and Read returns ErrNotStored.
//   - If a process is killed, the rest of its files is not content for a later process.
//   - If the disk is full or the limit is reached, the least recently used content is evicted. Content that Write
//     returned is not evicted before the caller calls release.
//   - Write and WriteFile return ErrTryAgain after they removed the cause of a failure, for example in a directory that
//     was emptied. The caller must then read the content from its source once more.
//   - All repositories share the store. A digest is not a secret, so the store does not separate tenants. If tenants
//     must not read each other's content, use one store for each tenant.
package store
