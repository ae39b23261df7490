// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bytebudget bounds the memory, or the space on a disk, of all concurrent operations:
// answers of API servers, watch events, parsed layers, pulls. Content is read only after its share
// was acquired.
//
//	budget := bytebudget.New(512 << 20)
//	lease, err := budget.Acquire(ctx, bytebudget.Owner{Tenant: "team-a", Host: "team-a/cluster-1"}, size) // waits
//	defer lease.Release()
//	err = lease.Grow(size + more) // never waits
//
// # Contract
//
//   - All leases of a Budget together never exceed its total. Those of one host hold at most a
//     quarter, those of one tenant at most a half. A request for more than a host's share gets
//     exactly this share.
//   - Acquire waits in the order of the requests until the context ends. It takes from the owner's
//     shares first: a waiting caller holds nothing that another owner needs.
//   - Grow never waits. So no lease waits for another lease, and there is no deadlock.
//   - Content of up to [Free] bytes needs no share, so small and frequent operations cost one
//     comparison.
//   - A nil *Budget has no limit. All methods are safe for concurrent use, except those of a
//     [Lease] and a [Meter], which are for one goroutine at a time.
//
// A [Meter] estimates the memory of a decoded answer from its bytes as they arrive.
package bytebudget
