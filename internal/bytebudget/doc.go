// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bytebudget bounds the memory, or the space on a disk, that everything under way takes together: answers of
// API servers, events of watches, layers that are parsed, pulls. Nothing is read before it has its share.
//
//	budget := bytebudget.New(512 << 20)
//	lease, err := budget.Acquire(ctx, bytebudget.Owner{Tenant: "team-a", Host: "team-a/cluster-1"}, size) // waits
//	defer lease.Release()
//	err = lease.Grow(size + more) // never waits
//
// # Contract
//
//   - The leases of a Budget never sum up to more than its total. Those of one host never hold more than a quarter of
//     it, those of one tenant never more than a half. A request for more than the share of a host gets exactly that
//     share.
//   - Acquire waits, in the order of the requests, until the context ends. It first takes from the shares of the owner:
//     a caller that waits holds nothing that another owner needs.
//   - Grow never waits. So no lease waits for another one, and there is no deadlock.
//   - Up to [Free] bytes need no share: what is small and frequent costs one comparison.
//   - A nil *Budget bounds nothing. All methods are safe for concurrent use, those of a [Lease] and a [Meter] for one
//     goroutine at a time.
//
// A [Meter] estimates what an answer takes in memory once it is decoded, from its bytes as they come in.
package bytebudget
