// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bytebudget bounds the memory, or the space on a disk, of all concurrent operations: answers of API servers,
// watch events, parsed layers, pulls. Callers acquire a share before they read content. The package counts bytes; it
// does not read or store content.
//
//	budget := bytebudget.New(512 << 20)
//	lease, err := budget.Acquire(ctx, bytebudget.Owner{Tenant: "team-a", Host: "team-a/cluster-1"}, size) // waits
//	defer lease.Release()
//	err = lease.Grow(size + more) // never waits
//
// # Contract
//
//   - The leases of a Budget together never exceed its total. One tenant holds at most a quarter of the total at one
//     host, and a half at all hosts. All tenants together hold at most a half at one host. A request for more than the
//     share of its owner gets exactly this share.
//   - Acquire waits in the order of the requests until the context ends. It takes from the owner's shares first: a
//     waiting caller does not hold bytes that another owner needs.
//   - Grow never waits. So no lease waits while it holds bytes, and there is no deadlock.
//   - Content of up to [Free] bytes needs no share. So small and frequent operations cost only one comparison.
//   - A nil *Budget has no limit. All methods are safe for concurrent use, except the methods of [Lease] and [Meter]:
//     use these in one goroutine at a time.
//
// A [Meter] estimates the memory of a decoded answer from its bytes as they arrive.
package bytebudget
