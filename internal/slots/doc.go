// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slots decides which releases may act in workload clusters now. A Helm action may take minutes, because hooks
// do, and the number of workers is small, so each action needs a slot. The package uses no client and no clock.
//
// A release without a slot occupies no worker: it waits in a queue, and [Options.Wake] is called when it gets a slot.
//
// # How slots are shared
//
// Some workers never act, so that releases are always reconciled. The other slots are shared twice, by the same rule:
// first between namespaces, then between the HelmOps of each namespace. A holder gets at most three quarters of what
// the others leave, and it never takes the last free slot if it holds one already. So one namespace, with any number of
// HelmOps, leaves slots to all others, and a HelmOp whose hooks wait for nodes leaves slots to the CNI that brings the
// nodes. The price is that these slots are idle while no other holder needs them.
//
// A free slot is granted to the namespace with the fewest slots, and within the namespace to the HelmOp with the
// fewest. Among the releases of the HelmOp, releases that are not installed yet are first, then the release that has
// waited longest. A release whose Cluster, HelmOp or namespace has reached its limit is skipped. Uninstallations that
// wait for the deletion of their objects have a separate limit, which namespaces share by the same rule.
//
// # What callers must do
//
// Call [Slots.Settle] at the end of each pass over a release, whether the pass requested a slot or not. If the pass did
// not request a slot and [Slots.Keep] was not called, the release leaves the queue, or loses the slot that was granted
// to it.
package slots
